import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import path from "node:path";

/** What a controller remembers of its store outside of the store: a short text in its state directory, replaced as a whole. */
export interface StateFile {
  readonly path: string;
  /** undefined: nothing was written yet. */
  read(): string | undefined;
  /** On disk when it returns. Used at the start only, so that waiting for the disk keeps nobody waiting. */
  write(text: string): void;
}

export const createStateFile = (stateDir: string, name: string): StateFile => {
  const file = path.join(stateDir, name);
  const read = (): string | undefined => {
    try {
      return readFileSync(file, "utf8").trim();
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw error;
    }
  };
  const synced = (target: string, flags: string, text: string): void => {
    const handle = openSync(target, flags, 0o600);
    try {
      if (text !== "") writeSync(handle, text);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
  };
  return {
    path: file,
    read,
    write(text) {
      if (read() === text) return;
      mkdirSync(stateDir, { recursive: true });
      synced(`${file}.new`, "w", `${text}\n`);
      renameSync(`${file}.new`, file);
      synced(stateDir, "r", "");
    },
  };
};
