/**
 * A directory of backups on a disk.
 *
 * F1 What has been written is on the disk, and so is its name. F2 A line ends with a newline and with nothing else: texts of people hold
 * other characters that some readers take for the end of a line.
 */
import { createReadStream } from "node:fs";
import { open, readdir, rename, rm, stat, statfs } from "node:fs/promises";
import path from "node:path";

/** A directory as its backups need it; names are names of files in it. */
export interface BackupFiles {
  /** For people. */
  readonly directory: string;
  list(): Promise<readonly string[]>;
  size(name: string): Promise<number>;
  /** Bytes that can be written still. */
  room(): Promise<number>;
  /** The file with all that `fill` writes, in place of one of that name. */
  write<T>(name: string, fill: (write: (text: string) => Promise<void>) => Promise<T>): Promise<T>;
  lines(name: string): AsyncIterable<string>;
  rename(from: string, to: string): Promise<void>;
  remove(name: string): Promise<void>;
}

const bufferedChars = 64 * 1024;

async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of createReadStream(file, "utf8")) {
    const lines = `${rest}${chunk as string}`.split("\n"); // F2
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") yield rest;
}

const synced = async (target: string): Promise<void> => {
  const handle = await open(target, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};

export const createBackupFiles = (directory: string): BackupFiles => {
  const at = (name: string): string => path.join(directory, name);
  return {
    directory,
    list: () => readdir(directory),
    size: async (name) => (await stat(at(name))).size,
    async room() {
      const { bavail, bsize } = await statfs(directory);
      return bavail * bsize;
    },
    async write(name, fill) {
      const handle = await open(at(name), "w", 0o600);
      let buffered = "";
      const flush = async (): Promise<void> => {
        const text = buffered;
        buffered = "";
        await handle.appendFile(text);
      };
      try {
        const result = await fill(async (text) => {
          buffered += text;
          if (buffered.length >= bufferedChars) await flush();
        });
        await flush();
        await handle.sync(); // F1
        return result;
      } finally {
        await handle.close();
      }
    },
    lines: (name) => linesOf(at(name)),
    async rename(from, to) {
      await rename(at(from), at(to));
      await synced(directory); // F1
    },
    remove: (name) => rm(at(name), { force: true }),
  };
};
