import { constants } from "node:fs";
import { chmod, lstat, mkdir, open, readdir, readFile, realpath, rename, unlink } from "node:fs/promises";
import path from "node:path";
import { DriverError } from "../domain/driver-error.ts";
import { errnoOf } from "../host/host-failure.ts";
import type { StateFiles } from "./state-files.ts";

const directoryMode = 0o700;
const fileMode = 0o600;

/** As whom files are made, in the numbers of this process's own user namespace; the link /proc/self belongs to root of the host. */
async function ownUid(): Promise<number> {
  const [, uid] = /^Uid:\t\d+\t(\d+)/m.exec(await readFile("/proc/self/status", "utf8")) ?? [];
  return Number(uid);
}

export function createNodeFiles(): StateFiles {
  return {
    openRoot: async (directory) => {
      await makeWithParents(directory);
      const root = await realpath(directory);
      const { uid } = await lstat(root);
      const self = await ownUid();
      if (uid !== self)
        throw new DriverError(
          "FAILED_PRECONDITION",
          `the state directory ${root} belongs to user ${uid}, who could change volumes behind the driver's back: chown it to user ${self}, as whom the driver runs`,
        );
      return root;
    },
    makePrivate: async (directory) => {
      const { mode } = await lstat(directory);
      if ((mode & 0o777) !== directoryMode) await chmod(directory, directoryMode);
    },
    makeDirectory: async (directory) => {
      try {
        await mkdir(directory, directoryMode);
        return true;
      } catch (error) {
        if (errnoOf(error) === "EEXIST") return false;
        throw error;
      }
    },
    list: async (directory) => {
      const found = await readdir(directory, { withFileTypes: true });
      return found.map((each) => ({
        name: each.name,
        kind: each.isFile() ? "file" : each.isDirectory() ? "directory" : each.isSymbolicLink() ? "link" : "other",
      }));
    },
    read: async (file, maxBytes) => {
      // O_NONBLOCK: a pipe in its place must not be waited for.
      const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
      try {
        const buffer = Buffer.alloc(Math.min((await handle.stat()).size, maxBytes) + 1);
        let length = 0;
        while (length < buffer.length) {
          const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length);
          if (bytesRead === 0) break;
          length += bytesRead;
        }
        return buffer.subarray(0, length);
      } finally {
        await handle.close();
      }
    },
    write: async (file, data) => {
      const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants;
      const handle = await open(file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, fileMode);
      try {
        await handle.writeFile(data);
        await handle.sync();
      } finally {
        await handle.close();
      }
    },
    mark: async (file) => {
      await (await open(file, "wx", fileMode)).close();
    },
    rename,
    unlink: (file) => unlink(file).catch(unlessGone),
    syncDirectory,
  };
}

/** The names that are new are durable where they stand. */
async function makeWithParents(directory: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode: directoryMode });
  if (first === undefined) return;
  for (let at = path.resolve(directory); at.length >= first.length; at = path.dirname(at)) {
    await syncDirectory(path.dirname(at));
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export function unlessGone(error: unknown): undefined {
  if (errnoOf(error) !== "ENOENT") throw error;
}
