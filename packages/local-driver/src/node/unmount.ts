import type { VolumeRecord } from "../domain/records.ts";
import { describeMount, lookAt, type Mounted } from "./mounted.ts";
import { type NodeParts, refusal } from "./node-parts.ts";

/** Propagation can show one mount as two lines, and then one unmount may take either both or one. */
const attempts = 8;

/**
 * Takes away what this volume has mounted at `path` (as the mount table spells it), and looks afterwards: an exit code proves nothing.
 * What is not of this volume stays, and is named. Answers what is true then.
 */
export async function unmount(
  parts: NodeParts,
  record: VolumeRecord,
  path: string,
  before: Mounted,
  signal: AbortSignal,
): Promise<Mounted> {
  let mounted = before;
  for (let done = 0; done <= attempts; done += 1) {
    const here = mounted.at(path);
    if (here.kind === "nothing") return mounted;
    if (here.kind === "foreign")
      throw refusal(parts, record, "FAILED_PRECONDITION", foreignMount(describeMount(here.entry)));
    await parts.host.mounts.unmount(path, signal);
    mounted = await lookAt(parts, record);
  }
  throw refusal(parts, record, "INTERNAL", `${path} was unmounted ${attempts} times and is still in the mount table`);
}

export const foreignMount = (found: string): string =>
  `something that is not of this volume is mounted at ${found}; it was left alone: unmount it, or use another path, and ask again`;
