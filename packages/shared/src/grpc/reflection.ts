/**
 * Server reflection over the descriptors of the API: as v1, and as v1alpha for the tools that know that alone. Both have the same
 * messages, and so one implementation.
 */
import { readApiImage } from "./api-image.ts";

const health = "grpc.health.v1.Health";
/** What services say to each other is no API, and no tool is shown it. */
const isPublic = (service: string): boolean => !service.startsWith("holdfast.internal.");

/** Undefined when there is no image. Loaded only by servers that offer it: the library brings a second protobuf runtime. */
export async function loadReflection(services: readonly string[]) {
  const descriptors = await readApiImage().catch(() => undefined);
  if (descriptors === undefined) return undefined;
  const { ServerReflection, ServerReflectionService: v1 } = await import("nice-grpc-server-reflection");
  const { serverReflectionInfo } = v1;
  const path = serverReflectionInfo.path.replace(".v1.", ".v1alpha.") as typeof serverReflectionInfo.path;
  const v1alpha: typeof v1 = { ...v1, serverReflectionInfo: { ...serverReflectionInfo, path } };
  return {
    definitions: [v1, v1alpha],
    implementation: ServerReflection(descriptors, [...services.filter(isPublic), health]),
  };
}
