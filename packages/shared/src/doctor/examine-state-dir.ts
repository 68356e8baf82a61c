import { constants } from "node:fs";
import { access, stat, statfs } from "node:fs/promises";
import { type Finding, fault, fine, warning } from "./finding.ts";
import { nearestThere } from "./nearest-there.ts";

const tmpfsMagic = 0x01021994;

/** Whether a directory can hold what must survive a restart. */
export const examineStateDir = async (dir: string, setting: string): Promise<readonly Finding[]> => {
  const nearest = await nearestThere(dir);
  try {
    await access(nearest, constants.W_OK | constants.X_OK);
  } catch (error) {
    const why = error instanceof Error && "code" in error ? String(error.code) : String(error);
    return [
      fault(
        "state-dir",
        dir,
        `cannot be written (${nearest}: ${why})`,
        `give it to this service's user, or correct ${setting}`,
      ),
    ];
  }
  if ((await statfs(nearest)).type === tmpfsMagic)
    return [
      fault(
        "state-lost",
        dir,
        "is in memory (tmpfs): it is lost with a reboot",
        `put ${setting} on a disk of this host`,
      ),
    ];
  const found = await stat(dir).catch(() => undefined);
  if (found !== undefined && (found.mode & 0o022) !== 0)
    return [warning("state-open", dir, "may be written by others than its owner", `chmod go-w ${dir}`)];
  return [fine("state-dir", dir, "can be written, and is on a disk")];
};
