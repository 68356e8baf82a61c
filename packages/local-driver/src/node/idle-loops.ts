import type { VolumeRecord } from "../domain/records.ts";
import type { LoopDevice } from "../ports.ts";
import { type Mounted, usersOf } from "./mounted.ts";
import type { NodeParts } from "./node-parts.ts";

/** Lets go of each loop device of the image that neither a mount nor a target uses. Answers those that went. */
export async function letGoOfIdleLoops(
  { host }: NodeParts,
  record: VolumeRecord,
  mounted: Mounted,
  signal: AbortSignal,
): Promise<readonly LoopDevice[]> {
  const idle = mounted.loops.filter((loop) => usersOf(mounted, loop).length === 0);
  const { image } = host.state.volumes.paths(record.id);
  for (const loop of idle) await host.loops.detach(loop, image, signal);
  return idle;
}
