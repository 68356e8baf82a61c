/** What the journal needs of a file system: whole writes, and names that outlive a loss of power. */
import { constants } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import path from "node:path";

export async function writeAll(handle: FileHandle, data: Buffer, position: number): Promise<void> {
  let done = 0;
  while (done < data.length) {
    const { bytesWritten } = await handle.write(data, done, data.length - done, position + done);
    done += bytesWritten;
  }
}

/** The names in it are on disk. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A directory and all that lies above it; the names that are new are synced where they stand. */
export async function makeDirectories(directory: string, mode: number): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode });
  if (first === undefined) return;
  for (let at = path.resolve(directory); at.length >= first.length; at = path.dirname(at)) {
    await syncDirectory(path.dirname(at));
  }
}

export const isDiskFull = (error: unknown): boolean =>
  ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "");
