import { type FileHandle, open, stat, unlink } from "node:fs/promises";
import { DriverError } from "../domain/driver-error.ts";
import type { FsType } from "../domain/records.ts";
import type { Images, Loops } from "../ports.ts";
import { syncFile } from "./file-sync.ts";
import { hostFailure, throwIfGivenUp } from "./host-failure.ts";
import { imageContents } from "./image-contents.ts";
import { imageExtents } from "./image-extents.ts";
import { fitMountedFilesystem, fitUnmountedExt4 } from "./image-fit.ts";
import { newExt4Identity, newXfsIdentity } from "./image-identity.ts";
import type { RunTool } from "./run-tool.ts";

const imageMode = 0o600;

/**
 * ext4 with blocks and inodes as a large one has them, since a small one may grow; nothing held back for root. It gives back the blocks
 * of the file first, which marks the inode tables as zeroed, so that no thread of the kernel writes them after the mount.
 * xfs has nothing to discard in a sparse file.
 */
const mkfs: Readonly<Record<FsType, readonly [program: string, ...args: string[]]>> = {
  ext4: ["mkfs.ext4", "-F", "-q", "-m", "0", "-b", "4096", "-I", "256"],
  xfs: ["mkfs.xfs", "-f", "-q", "-K"],
};

export function createImages({ run, loops }: { readonly run: RunTool; readonly loops: Loops }): Images {
  return {
    create: async (image, bytes, signal) => {
      throwIfGivenUp(`make ${image}`, signal);
      let file: FileHandle | undefined;
      try {
        file = await open(image, "wx", imageMode);
        await file.truncate(Number(bytes));
        await file.sync();
      } catch (error) {
        // Only what this call made: an image that was there is somebody's.
        if (file !== undefined) await unlink(image).catch(() => undefined);
        throw hostFailure(`make ${image} of ${bytes} bytes`, error);
      } finally {
        await file?.close();
      }
    },
    grow: async (image, bytes, signal) => {
      throwIfGivenUp(`grow ${image}`, signal);
      let file: FileHandle | undefined;
      try {
        file = await open(image, "r+");
        const { size } = await file.stat({ bigint: true });
        if (bytes > size) await file.truncate(Number(bytes));
        // Also when it fits: a killed life may have grown it without syncing.
        await file.sync();
      } catch (error) {
        throw hostFailure(`grow ${image} to ${bytes} bytes`, error);
      } finally {
        await file?.close();
      }
    },
    sizeOf: async (image) => {
      try {
        return (await stat(image, { bigint: true })).size;
      } catch (error) {
        throw hostFailure(`tell the size of ${image}`, error);
      }
    },
    contents: (image, signal) => imageContents(run, image, signal),
    format: async (image, fsType, signal) => {
      const [program, ...args] = mkfs[fsType];
      await requireImage(image);
      await run(program, [...args, "--", image], { signal });
      await syncFile(image);
    },
    fitUnmounted: async (image, fsType, signal) => {
      // xfs grows when it is mounted.
      if (fsType === "ext4") await fitUnmountedExt4(run, image, signal);
    },
    fitMounted: (device, mountPoint, fsType, signal) =>
      fitMountedFilesystem(run, { device, mountPoint, fsType }, signal),
    extents: (image, signal) => imageExtents(run, image, signal),
    newIdentity: async (image, fsType, signal) => {
      if (fsType === "ext4") await newExt4Identity(run, image, signal);
      else await newXfsIdentity({ run, loops }, image, signal);
      await syncFile(image);
    },
  };
}

/** mkfs would make a file of its own where there is none. */
async function requireImage(image: string): Promise<void> {
  const { size } = await stat(image).catch((error: unknown) => {
    throw hostFailure(`format ${image}`, error);
  });
  if (size === 0)
    throw new DriverError("FAILED_PRECONDITION", `cannot format ${image}: it is empty, so it was cut off`);
}
