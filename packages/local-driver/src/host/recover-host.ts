import { readdir, rm } from "node:fs/promises";
import path from "node:path";
import type { Loops, Mounts } from "../ports.ts";
import { canonicalPath } from "./canonical-path.ts";
import { probePrefix } from "./copier.ts";
import { hostFailure, messageOf } from "./host-failure.ts";
import { backedFile, loopsBelow } from "./loop-sysfs.ts";
import { bindingPlace } from "./mounts.ts";

export interface RecoverHostOptions {
  readonly stateDir: string;
  readonly mounts: Mounts;
  readonly loops: Loops;
  readonly sys?: string;
}

/**
 * What a killed life left of its own tools: a bind half-made, a loop device of a copy half-made, the files of a probe. To be called at the
 * start after the stray children are gone and before making/ and trash/ are emptied. The volumes' own mounts and devices are not touched.
 * Says what it did.
 */
export async function recoverHost(
  { stateDir, mounts, loops, sys = "/sys" }: RecoverHostOptions,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const did: string[] = [];
  const hidden = await canonicalPath(bindingPlace(stateDir));
  const mounted = async () => (await mounts.table()).some(({ mountPoint }) => mountPoint === hidden);
  while (await mounted()) {
    await mounts.unmount(hidden, signal);
    did.push(`unmounted ${hidden}, a bind that was not finished`);
  }
  const root = await canonicalPath(stateDir);
  for (const loop of loopsBelow(sys, root)) {
    const file = backedFile(loop);
    // Those of volumes are judged with their records.
    if (file.startsWith(`${path.join(root, "volumes")}/`)) continue;
    const gone = loops.detach(loop, file, signal).then(() => `let go of ${loop.device}, of the unfinished ${file}`);
    did.push(await gone.catch((error: unknown) => messageOf(error)));
  }
  try {
    for (const name of await readdir(root))
      if (name.startsWith(probePrefix)) await rm(path.join(root, name), { recursive: true, force: true });
  } catch (error) {
    throw hostFailure(`tidy ${root}`, error);
  }
  return did;
}
