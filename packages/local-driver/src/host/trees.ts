import fs from "node:fs/promises";
import path from "node:path";
import { DriverError } from "../domain/driver-error.ts";
import type { Trees } from "../ports.ts";

/** As the root of a fresh ext4 is: whoever else shall write gets it by volume_mount_group, or by a chown of the workload. */
const rootMode = 0o755;

export function createTrees(): Trees {
  return {
    makeRoot: async (directory) => {
      try {
        await fs.mkdir(directory);
        // mkdir's mode goes through the umask, which is whatever the service manager set.
        await fs.chmod(directory, rootMode);
        await sync(directory);
        await sync(path.dirname(directory));
      } catch (error) {
        if (!(error instanceof Error) || !("code" in error)) throw error;
        const full = error.code === "ENOSPC" || error.code === "EDQUOT";
        throw new DriverError(
          full ? "RESOURCE_EXHAUSTED" : "INTERNAL",
          `cannot make the directory ${directory}: ${error.message}; ${full ? "delete volumes or snapshots, or enlarge the disk" : "look at the disk and its permissions, then repeat the call"}`,
          { cause: error },
        );
      }
    },
  };
}

async function sync(directory: string): Promise<void> {
  const handle = await fs.open(directory, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
