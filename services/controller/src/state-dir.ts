/**
 * The controller's own memory beside the store: who it is, how often it has started, and which installation it belongs to.
 *
 * D1 One controller per state directory. The lock is the kernel's and ends with the process.
 * D2 Each start has its own number, durable before anything is called under it.
 */
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import path from "node:path";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type DirectoryLock, DirectoryTaken, takeDirectoryLock } from "@holdfast/shared/lock/directory-lock";

export interface StateDir {
  /** Stable over restarts. */
  readonly id: string;
  /** Counts the starts. */
  readonly incarnation: number;
  /** Of this life alone, also where the directory was lost and the starts are counted anew: whose calls an intent speaks of. */
  readonly issuer: string;
  /** The installation that this controller belonged to before, as the gate wants to know it. */
  readonly lineage: { read(): string | undefined; remember(clusterUid: string): void };
  release(): void;
}

export const openStateDir = async (
  directory: string,
  { id, uuid }: { readonly id: string | undefined; readonly uuid: () => string },
): Promise<StateDir> => {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const { release } = await lock(directory); // D1
  const kept = (name: string): string | undefined => read(path.join(directory, name));
  const keep = (name: string, text: string): void => write(path.join(directory, name), text);
  const known = kept("controller-id");
  if (known === undefined) keep("controller-id", uuid());
  const incarnation = Number(kept("incarnation") ?? "0") + 1;
  keep("incarnation", String(incarnation)); // D2
  const own = id ?? kept("controller-id") ?? uuid();
  return {
    id: own,
    incarnation,
    issuer: `${own}/${incarnation}-${uuid().slice(0, 8)}`,
    lineage: {
      read: () => kept("cluster-uid"),
      remember(clusterUid) {
        if (kept("cluster-uid") !== clusterUid) keep("cluster-uid", clusterUid);
      },
    },
    release,
  };
};

const read = (file: string): string | undefined => {
  try {
    const text = readFileSync(file, "utf8").trim();
    return text === "" ? undefined : text;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
};

/** All or nothing, and on disk. */
const write = (file: string, text: string): void => {
  const fd = openSync(`${file}.new`, "w", 0o600);
  try {
    writeSync(fd, `${text}\n`);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(`${file}.new`, file);
  // The new name too: a counter that a power loss sets back would give two lives one number (D2).
  const folder = openSync(path.dirname(file), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
};

const lock = async (directory: string): Promise<DirectoryLock> => {
  try {
    return await takeDirectoryLock(directory);
  } catch (error) {
    if (!(error instanceof DirectoryTaken)) throw error;
    const holder = error.pid === undefined ? "" : ` (pid ${error.pid})`;
    throw new HoldfastError({
      kind: "precondition",
      reason: "STATE_DIR_IN_USE",
      message: `another controller${holder} runs on the state directory ${directory}; stop it first, or give this one its own`,
      metadata: { path: directory },
      cause: error,
    });
  }
};

const codeOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
