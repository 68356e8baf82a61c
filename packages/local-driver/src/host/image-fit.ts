import { open } from "node:fs/promises";
import { DriverError } from "../domain/driver-error.ts";
import type { FsType } from "../domain/records.ts";
import { syncFile } from "./file-sync.ts";
import { hostFailure, throwIfGivenUp } from "./host-failure.ts";
import type { RunTool } from "./run-tool.ts";
import { parseExt4, parseXfs, type Superblock, superblockBytes } from "./superblock.ts";

/** resize2fs counts in whole blocks: a remainder below this stays unused. */
const ext4BlockBytes = 4096n;
/** Of e2fsck: nothing to correct; all of it corrected. */
const clean = [0, 1];

const parsers: Readonly<Record<FsType, (image: Buffer) => Superblock | undefined>> = { ext4: parseExt4, xfs: parseXfs };

/** What the image says about its filesystem, and how large the file is. FAILED_PRECONDITION when it does not carry that filesystem. */
export async function readSuperblock(
  image: string,
  fsType: FsType,
): Promise<{ readonly superblock: Superblock; readonly fileBytes: bigint }> {
  const { bytes, fileBytes } = await readHead(image);
  const superblock = parsers[fsType](bytes);
  if (superblock !== undefined) return { superblock, fileBytes };
  throw new DriverError(
    "FAILED_PRECONDITION",
    `${image} does not carry ${fsType}, as the driver remembers; nothing was changed; look at it with blkid -p, and restore it from a snapshot`,
  );
}

async function readHead(image: string): Promise<{ readonly bytes: Buffer; readonly fileBytes: bigint }> {
  try {
    const file = await open(image, "r");
    try {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(superblockBytes), 0, superblockBytes, 0);
      return { bytes: buffer.subarray(0, bytesRead), fileBytes: (await file.stat({ bigint: true })).size };
    } finally {
      await file.close();
    }
  } catch (error) {
    throw hostFailure(`read ${image}`, error);
  }
}

/** Repairs what a crash left and lets the filesystem have all of the file. */
export async function fitUnmountedExt4(run: RunTool, image: string, signal: AbortSignal): Promise<void> {
  const { superblock, fileBytes } = await readSuperblock(image, "ext4");
  if (superblock.bytes > fileBytes)
    throw new DriverError(
      "FAILED_PRECONDITION",
      `${image} is cut off: it has ${fileBytes} bytes, its filesystem ${superblock.bytes}; nothing was changed; restore it from a snapshot`,
    );
  if (fileBytes - superblock.bytes < ext4BlockBytes) return;
  await checkExt4(run, image, signal);
  throwIfGivenUp(`grow the filesystem of ${image}`, signal);
  // Once begun it goes on to its end, which is near: it has no journal of its own, and a kill would leave a half-grown filesystem.
  await run("resize2fs", ["--", image], { signal: new AbortController().signal });
  await syncFile(image);
}

/** Replays the journal and checks everything; corrects what is safe to correct. */
export async function checkExt4(run: RunTool, image: string, signal: AbortSignal): Promise<void> {
  const all = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12];
  const { code, stdout, stderr } = await run("e2fsck", ["-f", "-p", "--", image], { signal, judges: all });
  if (clean.includes(code)) return;
  throw new DriverError(
    "FAILED_PRECONDITION",
    `the ext4 of ${image} needs a person: e2fsck -f -p ended with ${code}: ${`${stdout} ${stderr}`.trim().slice(-2000)}; ` +
      `run e2fsck -f ${image} by hand, or restore the volume from a snapshot`,
  );
}

export async function fitMountedFilesystem(
  run: RunTool,
  { device, mountPoint, fsType }: { readonly device: string; readonly mountPoint: string; readonly fsType: FsType },
  signal: AbortSignal,
): Promise<void> {
  if (fsType === "xfs") await run("xfs_growfs", ["-d", "--", mountPoint], { signal });
  else await growMountedExt4(run, device, signal);
}

/** The kernel wants CAP_SYS_RESOURCE for it, which a container seldom has. */
async function growMountedExt4(run: RunTool, device: string, signal: AbortSignal): Promise<void> {
  const { code, stdout, stderr } = await run("resize2fs", ["--", device], { signal, judges: [0, 1] });
  if (code === 0) return;
  const said = `${stdout} ${stderr}`.trim().slice(-1000);
  const forbidden = /Permission denied|Operation not permitted/.test(said);
  throw new DriverError(
    forbidden ? "FAILED_PRECONDITION" : "INTERNAL",
    forbidden
      ? `the ext4 on ${device} cannot grow while it is mounted, since the driver lacks CAP_SYS_RESOURCE: unstage the volume and stage it again, and it grows then (resize2fs: ${said})`
      : `the ext4 on ${device} did not grow: resize2fs: ${said}; unstage the volume and stage it again`,
  );
}
