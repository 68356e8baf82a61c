import { mkdir } from "node:fs/promises";
import path from "node:path";
import { runCommand } from "./run-command.ts";

/** A state directory that is a filesystem of its own, of a known size, in a file below the home. */
const stateOn =
  (mkfs: readonly [string, ...string[]], size: string) =>
  async (home: string): Promise<string> => {
    const disk = path.join(home, "disk.img");
    const stateDir = path.join(home, "state");
    await mkdir(stateDir);
    await runCommand("truncate", "--size", size, disk);
    await runCommand(mkfs[0], ...mkfs.slice(1), disk);
    const device = (await runCommand("losetup", "--find", "--show", disk)).trim();
    // Somebody who had the number before may have left it read-only.
    await runCommand("blockdev", "--setrw", device);
    await runCommand("mount", "-w", device, stateDir);
    // It goes with the mount.
    await runCommand("losetup", "--detach", device);
    return stateDir;
  };

/** Copies of files share their blocks there. */
export const stateOnXfs = stateOn(["mkfs.xfs", "-q", "-m", "reflink=1"], "16G");

/** Without blocks that are kept back for root: full is full. */
export const stateOnSmallExt4 = stateOn(["mkfs.ext4", "-q", "-m", "0"], "96M");
