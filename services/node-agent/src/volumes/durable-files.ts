/** What the journal needs of a file system: whole writes, and names that outlive a loss of power. */
import { constants, fdatasync, write } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import path from "node:path";

/** By the descriptor: a promise of its own for each layer of a handle costs as much as the way to the thread pool. Not to be closed meanwhile. */
export function writeAll({ fd }: FileHandle, data: Buffer, position: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const writeFrom = (done: number): void =>
      write(fd, data, done, data.length - done, position + done, (error, bytesWritten) => {
        if (error !== null) reject(error);
        else if (done + bytesWritten < data.length) writeFrom(done + bytesWritten);
        else resolve();
      });
    writeFrom(0);
  });
}

/** By the descriptor too. */
export function syncData({ fd }: FileHandle): Promise<void> {
  return new Promise((resolve, reject) => {
    fdatasync(fd, (error) => (error === null ? resolve() : reject(error)));
  });
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
