import { DriverError } from "../domain/driver-error.ts";
import type { FsType } from "../domain/records.ts";
import type { Loops } from "../ports.ts";
import { checkExt4, readSuperblock } from "./image-fit.ts";
import { replayXfsLog } from "./replay-xfs-log.ts";
import type { RunTool } from "./run-tool.ts";

/** tune2fs rewrites every checksum with the new UUID, and so wants a filesystem that was checked a moment ago. */
export async function newExt4Identity(run: RunTool, image: string, signal: AbortSignal): Promise<void> {
  const before = await uuidOf(image, "ext4");
  await checkExt4(run, image, signal);
  await run("tune2fs", ["-U", "random", "--", image], { signal });
  await requireChange(image, "ext4", before);
}

/** xfs_admin refuses while the log holds anything, and that of a frozen filesystem always does; only a mount empties it. */
export async function newXfsIdentity(
  { run, loops }: { readonly run: RunTool; readonly loops: Loops },
  image: string,
  signal: AbortSignal,
): Promise<void> {
  const before = await uuidOf(image, "xfs");
  await replayXfsLog({ run, loops }, image, signal);
  await run("xfs_admin", ["-U", "generate", "--", image], { signal });
  await requireChange(image, "xfs", before);
}

const uuidOf = async (image: string, fsType: FsType): Promise<string> =>
  (await readSuperblock(image, fsType)).superblock.uuid;

/** xfs_admin ends with 0 when it refuses, too. */
async function requireChange(image: string, fsType: FsType, before: string): Promise<void> {
  if ((await uuidOf(image, fsType)) !== before) return;
  throw new DriverError(
    "INTERNAL",
    `the copy ${image} kept the UUID of its original (${before}), so that the two cannot be mounted at once; repeat the call`,
  );
}
