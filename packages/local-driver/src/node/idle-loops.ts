import type { VolumeRecord } from "../domain/records.ts";
import type { LoopDevice } from "../ports.ts";
import { lookAt, usersOf } from "./mounted.ts";
import type { NodeParts } from "./node-parts.ts";

/** Lets go of each loop device of the image that neither a mount nor a target uses. Answers those that went. */
export async function letGoOfIdleLoops(
  parts: NodeParts,
  record: VolumeRecord,
  signal: AbortSignal,
): Promise<readonly LoopDevice[]> {
  if (record.type !== "image") return [];
  const mounted = await lookAt(parts, record);
  const idle = mounted.loops.filter((loop) => usersOf(mounted, loop).length === 0);
  const { image } = parts.host.state.volumes.paths(record.id);
  for (const loop of idle) await parts.host.loops.detach(loop, image, signal);
  return idle;
}
