/** Server reflection over the descriptors that code generation leaves beside the code. */
import { readFile } from "node:fs/promises";

const image = new URL("../gen/image.binpb", import.meta.url);

/** Undefined when there is no image. Loaded only by servers that offer it: the library brings a second protobuf runtime. */
export async function loadReflection(services: readonly string[]) {
  const descriptors = await readFile(image).catch(() => undefined);
  if (descriptors === undefined) return undefined;
  const { ServerReflection, ServerReflectionService } = await import("nice-grpc-server-reflection");
  return { definition: ServerReflectionService, implementation: ServerReflection(descriptors, services) };
}
