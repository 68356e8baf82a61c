/** What is true on the host below one directory, as the kernel tells it: the tests' own look, not the driver's. */
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { loopsUnder } from "../harness/loop-files.ts";

export interface MountFact {
  readonly point: string;
  /** Of this mount: a read-only bind has `ro` here. */
  readonly options: readonly string[];
  readonly fsType: string;
  readonly superOptions: readonly string[];
}

export interface LoopFact {
  readonly device: string;
  /** Of which the loop device is; without the mark that it was deleted. */
  readonly image: string;
  readonly readonly: boolean;
}

const plainText = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));

const parseMount = (line: string): MountFact => {
  const [left = "", right = ""] = line.split(" - ");
  const [, , , , point = "", options = ""] = left.split(" ");
  const [fsType = "", , superOptions = ""] = right.split(" ");
  return { point: plainText(point), options: options.split(","), fsType, superOptions: superOptions.split(",") };
};

const isBelow = (home: string, file: string): boolean => file === home || file.startsWith(`${home}/`);

/** Of a path without symbolic links. In the order of the table: what was mounted last comes last. */
export const mountsBelow = async (home: string): Promise<readonly MountFact[]> => {
  const table = await readFile("/proc/self/mountinfo", "utf8");
  return table
    .split("\n")
    .filter((line) => line !== "")
    .map(parseMount)
    .filter(({ point }) => isBelow(home, point));
};

const readIfThere = async (file: string): Promise<string | undefined> => {
  try {
    return (await readFile(file, "utf8")).trim();
  } catch {
    // A process may end while it is looked at.
    return undefined;
  }
};

export const loopsBelow = async (home: string): Promise<readonly LoopFact[]> =>
  (await loopsUnder(home)).map(({ device, file, readonly }) => ({ device, image: file, readonly }));

/** Processes that the driver of this state directory started, or its lives of before. */
export const childrenOf = async (stateDir: string): Promise<readonly number[]> => {
  const mark = `HOLDFAST_LOCAL_CHILD_OF=${stateDir}`;
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const marked = await Promise.all(
    pids.map(async (pid) => ((await readIfThere(`/proc/${pid}/environ`)) ?? "").split("\0").includes(mark)),
  );
  return pids.filter((_, at) => marked[at]).map(Number);
};

/** Each file of the state directory that no volume, snapshot or group has a right to. */
export const strayFiles = async (stateDir: string): Promise<readonly string[]> => {
  const stray: string[] = [];
  const list = async (relative: string): Promise<readonly string[]> => {
    try {
      return await readdir(path.join(stateDir, relative));
    } catch (error) {
      // Deleted a moment ago.
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    }
  };
  const top = new Set([
    "format.json",
    "lock",
    "volumes",
    "snapshots",
    "groups",
    "making",
    "trash",
    // Where a bind is made read-only before anybody can see it.
    "binding",
    "lost+found",
  ]);
  const own = /^(?:record\.json|image|data|name-[0-9a-f]{64})$/;
  stray.push(...(await list("")).filter((name) => !top.has(name)));
  for (const place of ["making", "trash"]) stray.push(...(await list(place)).map((name) => path.join(place, name)));
  for (const place of ["volumes", "snapshots", "groups"])
    for (const id of await list(place)) {
      const names = (await list(path.join(place, id))).filter((name) => !own.test(name));
      stray.push(...names.map((name) => path.join(place, id, name)));
    }
  return stray;
};
