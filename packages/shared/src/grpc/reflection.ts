/** Server reflection over the descriptors of the API. */
import { readApiImage } from "./api-image.ts";

/** Undefined when there is no image. Loaded only by servers that offer it: the library brings a second protobuf runtime. */
export async function loadReflection(services: readonly string[]) {
  const descriptors = await readApiImage().catch(() => undefined);
  if (descriptors === undefined) return undefined;
  const { ServerReflection, ServerReflectionService } = await import("nice-grpc-server-reflection");
  return { definition: ServerReflectionService, implementation: ServerReflection(descriptors, services) };
}
