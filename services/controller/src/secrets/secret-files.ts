/**
 * Secrets in files below a configured root: one JSON object, or a directory with one file a key, as secrets are mounted into containers.
 *
 * F1 What is read lies below the root, whatever links there are: the path of the *open* file is asked for, so that a link that is changed
 * meanwhile changes nothing. A link that stays below the root is followed: `..data` of a mounted secret is one. F2 Only regular files of
 * bounded size that not everybody may use are read, and opening one waits for nothing.
 */
import { constants } from "node:fs";
import { type FileHandle, open, readdir, readlink, realpath, stat } from "node:fs/promises";
import path from "node:path";
import { isAtOrBelow } from "../domain/secret/secret-scope.ts";
import { parseSecretText, SecretUnusable } from "./secret-unusable.ts";

export interface SecretFileReading {
  readonly values: unknown;
  /** Others after each change; of the content they say nothing. */
  readonly stamps: readonly string[];
}

/** Far above the 4 KiB that CSI takes: a larger file is the wrong file. */
const maxFileBytes = 64 * 1024;
const maxFiles = 256;

/** Only the code: messages of fs name paths. */
const failed = (error: unknown): never => {
  if (error instanceof SecretUnusable) throw error;
  const code = typeof error === "object" && error !== null && "code" in error ? String(error.code) : "unknown error";
  throw new SecretUnusable(`cannot be read by this controller (${code})`);
};

const readOne = async (root: string, file: string): Promise<{ readonly text: string; readonly stamp: string }> => {
  const real = await realpath(file);
  const handle = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK); // F2
  try {
    if (!isAtOrBelow(await readlink(`/proc/self/fd/${handle.fd}`), root))
      throw new SecretUnusable("leads out of its root"); // F1
    const found = await handle.stat({ bigint: true });
    if (!found.isFile()) throw new SecretUnusable("is no regular file"); // F2
    if ((found.mode & 0o007n) !== 0n)
      throw new SecretUnusable(`can be read or written by everybody on this machine; run: chmod o-rwx ${file}`);
    return {
      text: await textOf(handle),
      stamp: `${found.dev} ${found.ino} ${found.size} ${found.mtimeNs}`,
    };
  } finally {
    await handle.close();
  }
};

const textOf = async (handle: FileHandle): Promise<string> => {
  const bytes = Buffer.alloc(maxFileBytes + 1);
  let length = 0;
  for (let read = 1; read > 0 && length < bytes.length; length += read)
    ({ bytesRead: read } = await handle.read(bytes, length, bytes.length - length));
  const text = bytes.toString("utf8", 0, length);
  bytes.fill(0);
  if (length > maxFileBytes) throw new SecretUnusable(`is larger than ${maxFileBytes} bytes`);
  return text;
};

const readKeys = async (root: string, directory: string): Promise<SecretFileReading> => {
  // Names with a dot in front are the machinery of a mount.
  const names = (await readdir(directory)).filter((name) => !name.startsWith(".")).sort();
  if (names.length > maxFiles) throw new SecretUnusable(`is a directory of more than ${maxFiles} files`);
  const pairs: [string, string][] = [];
  const stamps: string[] = [];
  for (const name of names) {
    const file = path.join(directory, name);
    if ((await stat(file)).isDirectory()) continue;
    const { text, stamp } = await readOne(root, file);
    pairs.push([name, text]);
    stamps.push(name, stamp);
  }
  return { values: Object.fromEntries(pairs), stamps };
};

/** Rejects with SecretUnusable. `below` has no `..` in it. */
export const readSecretFile = async (root: string, below: string): Promise<SecretFileReading> => {
  try {
    const realRoot = await realpath(root);
    const file = path.join(realRoot, below);
    if ((await stat(file)).isDirectory()) return await readKeys(realRoot, file);
    const { text, stamp } = await readOne(realRoot, file);
    return { values: parseSecretText(text), stamps: [stamp] };
  } catch (error) {
    return failed(error);
  }
};
