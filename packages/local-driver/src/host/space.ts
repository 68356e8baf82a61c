import { lstat, statfs } from "node:fs/promises";
import type { Space } from "../ports.ts";
import { hostFailure } from "./host-failure.ts";

/** st_blocks counts in these, whatever the block size of the filesystem is. */
const sectorBytes = 512n;

export function createSpace({ stateDir }: { readonly stateDir: string }): Space {
  return {
    freeBytes: async () => {
      try {
        const { bavail, bsize } = await statfs(stateDir, { bigint: true });
        return bavail * bsize;
      } catch (error) {
        throw hostFailure(`tell the free space of ${stateDir}`, error);
      }
    },
    allocatedBytes: async (file) => {
      try {
        return (await lstat(file, { bigint: true })).blocks * sectorBytes;
      } catch (error) {
        throw hostFailure(`tell what ${file} occupies`, error);
      }
    },
  };
}
