/** Small texts that are read at a start and have to outlive a loss of power: written whole, or not at all. */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import path from "node:path";

/** Undefined: there is no such file. */
export const readDurableText = (file: string): string | undefined => {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
};

/** The system's own words name no file. */
const notWritten = (file: string, cause: unknown): Error => {
  const { code = "", message } = cause as NodeJS.ErrnoException;
  const cure = ["ENOSPC", "EDQUOT"].includes(code) ? ": free some space on its disk" : "";
  return Object.assign(new Error(`${file} cannot be written: ${message}${cure}`, { cause }), { code });
};

/** On disk when it returns: the text, and its name. Without a mode its owner alone may read it. What throws leaves the text before it. */
export const writeDurableText = (file: string, text: string, mode = 0o600): void => {
  try {
    writeWhole(file, text, mode);
  } catch (error) {
    rmSync(`${file}.new`, { force: true });
    throw notWritten(file, error);
  }
};

const writeWhole = (file: string, text: string, mode: number): void => {
  const fd = openSync(`${file}.new`, "w", mode);
  try {
    const bytes = Buffer.from(text, "utf8");
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(`${file}.new`, file);
  // The new name too: a power loss must not bring the text before it back.
  syncDirectory(path.dirname(file));
};

/** When it returns, the names in the directory are on disk. */
export const syncDirectory = (directory: string): void => {
  const folder = openSync(directory, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
};
