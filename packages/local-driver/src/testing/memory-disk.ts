/**
 * A disk that tells apart what the process sees and what a loss of power would leave: a name is on it once its directory was synced,
 * the contents of a file once the file was. Nastier than any journaling file system, which keeps at least the order of renames: here
 * each change that was not synced arrives or not, by chance.
 */
import path from "node:path";
import type { RemoveTree } from "../state/remove-tree.ts";
import type { Entry, StateFiles } from "../state/state-files.ts";
import { Killed } from "./memory-faults.ts";

interface FileNode {
  readonly kind: "file" | "link";
  data: Buffer;
  synced: Buffer | undefined;
}

interface DirectoryNode {
  readonly kind: "directory";
  readonly entries: Map<string, Node>;
  readonly synced: Map<string, Node>;
}

type Node = FileNode | DirectoryNode;

interface NameChange {
  readonly directory: DirectoryNode;
  readonly name: string;
  readonly node: Node | undefined;
}

/** What goes wrong at one step. `kill` before it; `error` in its place; `late` is done, and told as an error. */
export type DiskFault = "kill" | { readonly error: string } | { readonly late: string };

/** The disk as one process has it. */
export interface DiskLife {
  readonly files: StateFiles;
  readonly removeTree: RemoveTree;
  /** So far: calls, and the parts of those that can be cut in the middle. */
  steps(): number;
  /** The step with this number (the first is 1) goes wrong; `times` in a row. */
  faultAt(step: number, fault: DiskFault, times?: number): void;
}

export interface MemoryDisk {
  /** Whoever had the disk before is dead. With a loss of power `survives` decides on each change that was not synced. */
  begin(power?: { readonly survives: () => boolean }): DiskLife;
  /** As an operator would, past the driver: durable at once. */
  put(file: string, data: Buffer): void;
  /** Every file with its text, every directory with undefined. */
  tree(): ReadonlyMap<string, string | undefined>;
}

interface Life {
  steps: number;
  dead: boolean;
  fault: DiskFault | undefined;
  from: number;
  to: number;
}

const newLife = (): Life => ({ steps: 0, dead: false, fault: undefined, from: 0, to: 0 });

export function createMemoryDisk(): MemoryDisk {
  const root = newDirectory();
  let pending: (readonly NameChange[])[] = [];
  let current = newLife();

  const node = (place: string): Node => {
    let at: Node = root;
    for (const part of place.split("/").filter((each) => each !== "")) {
      if (at.kind !== "directory") throw errno("ENOTDIR", place);
      const next = at.entries.get(part);
      if (next === undefined) throw errno("ENOENT", place);
      at = next;
    }
    return at;
  };
  const directory = (place: string): DirectoryNode => {
    const found = node(place);
    if (found.kind !== "directory") throw errno("ENOTDIR", place);
    return found;
  };
  const find = (place: string): Node | undefined => directory(path.dirname(place)).entries.get(path.basename(place));
  const changed = (...changes: readonly (readonly [place: string, node: Node | undefined])[]): void => {
    const named = changes.map(([place, to]) => ({
      directory: directory(path.dirname(place)),
      name: path.basename(place),
      node: to,
    }));
    for (const change of named) apply(change, "entries");
    pending.push(named);
  };

  /** Those of this directory reach the disk, and with each what had to come before it. */
  const sync = (at: DirectoryNode): void => {
    const due = new Set<readonly NameChange[]>();
    for (const each of [...pending].reverse()) {
      const isDue = each.some((change) => change.directory === at) || [...due].some((later) => touchSame(each, later));
      if (isDue) due.add(each);
    }
    for (const each of pending) if (due.has(each)) for (const change of each) apply(change, "synced");
    pending = pending.filter((each) => !due.has(each));
  };

  const lifeOf = (life: Life): DiskLife => {
    const step = async (work: () => void): Promise<void> => {
      // As a real call does, it lets others run.
      await Promise.resolve();
      if (life.dead) throw new Killed();
      life.steps += 1;
      const fault = life.steps >= life.from && life.steps < life.to ? life.fault : undefined;
      if (fault === "kill") {
        life.dead = true;
        throw new Killed();
      }
      if (fault !== undefined && "error" in fault) throw errno(fault.error);
      work();
      if (fault !== undefined) throw errno(fault.late);
    };

    const files: StateFiles = {
      openRoot: async (place) => {
        await step(() => {
          if (find(place) === undefined) changed([place, newDirectory()]);
          sync(directory(path.dirname(place)));
        });
        return place;
      },
      makePrivate: (place) => step(() => void directory(place)),
      makeDirectory: async (place) => {
        let made = false;
        await step(() => {
          made = find(place) === undefined;
          if (made) changed([place, newDirectory()]);
        });
        return made;
      },
      list: async (place) => {
        let found: Entry[] = [];
        await step(() => {
          found = [...directory(place).entries].map(([name, { kind }]) => ({ name, kind }));
        });
        return found;
      },
      read: async (file, maxBytes) => {
        let data = Buffer.alloc(0);
        await step(() => {
          const found = node(file);
          if (found.kind !== "file") throw errno(found.kind === "link" ? "ELOOP" : "EISDIR", file);
          data = Buffer.from(found.data.subarray(0, maxBytes + 1));
        });
        return data;
      },
      write: async (file, data) => {
        let target: FileNode | undefined;
        await step(() => {
          const found = find(file);
          if (found !== undefined && found.kind !== "file") throw errno("EISDIR", file);
          target = found ?? newFile();
          target.data = Buffer.alloc(0);
          if (found === undefined) changed([file, target]);
        });
        for (const part of [data.length >> 1, data.length])
          await step(() => {
            if (target !== undefined) target.data = Buffer.from(data.subarray(0, part));
          });
        await step(() => {
          if (target !== undefined) target.synced = target.data;
        });
      },
      mark: (file) =>
        step(() => {
          if (find(file) !== undefined) throw errno("EEXIST", file);
          const made = newFile();
          made.synced = made.data;
          changed([file, made]);
        }),
      rename: (from, to) =>
        step(() => {
          const moved = node(from);
          const there = find(to);
          if (there?.kind === "directory" && there.entries.size > 0) throw errno("ENOTEMPTY", to);
          changed([from, undefined], [to, moved]);
        }),
      unlink: (file) =>
        step(() => {
          if (find(file) !== undefined) changed([file, undefined]);
        }),
      syncDirectory: (place) => step(() => sync(directory(place))),
    };

    const removeTree: RemoveTree = async (place) => {
      if (find(place) === undefined) return;
      for (const name of [...directory(place).entries.keys()]) {
        const child = path.join(place, name);
        if (node(child).kind === "directory") await removeTree(child, new AbortController().signal);
        else await step(() => changed([child, undefined]));
      }
      await step(() => changed([place, undefined]));
    };

    return {
      files,
      removeTree,
      steps: () => life.steps,
      faultAt: (first, fault, times = 1) => Object.assign(life, { fault, from: first, to: first + times }),
    };
  };

  return {
    begin: (power) => {
      current.dead = true;
      current = newLife();
      if (power !== undefined) {
        const lost: (readonly NameChange[])[] = [];
        for (const each of pending) {
          if (lost.some((earlier) => touchSame(earlier, each)) || !power.survives()) lost.push(each);
          else for (const change of each) apply(change, "synced");
        }
        pending = [];
        loadFromDisk(root, power.survives);
      }
      return lifeOf(current);
    },
    put: (file, data) => {
      const there = newFile();
      there.data = data;
      there.synced = data;
      changed([file, there]);
      sync(directory(path.dirname(file)));
    },
    tree: () => new Map(walk(root, "")),
  };
}

const newDirectory = (): DirectoryNode => ({ kind: "directory", entries: new Map(), synced: new Map() });
const newFile = (): FileNode => ({ kind: "file", data: Buffer.alloc(0), synced: undefined });

function errno(code: string, place = ""): Error {
  return Object.assign(new Error(`${code}: a fault of the test${place === "" ? "" : `, ${place}`}`), { code });
}

function apply({ directory, name, node }: NameChange, side: "entries" | "synced"): void {
  if (node === undefined) directory[side].delete(name);
  else directory[side].set(name, node);
}

const touchSame = (a: readonly NameChange[], b: readonly NameChange[]): boolean =>
  a.some((one) => b.some((other) => one.directory === other.directory && one.name === other.name));

/** Contents that were not synced are there, are not, or are cut. */
function loadFromDisk(directory: DirectoryNode, survives: () => boolean): void {
  directory.entries.clear();
  for (const [name, node] of directory.synced) {
    directory.entries.set(name, node);
    if (node.kind === "directory") loadFromDisk(node, survives);
    else if (node.synced !== node.data) {
      const kept = survives() ? node.data.subarray(0, node.data.length >> 1) : Buffer.alloc(0);
      node.data = survives() ? node.data : (node.synced ?? kept);
      node.synced = node.data;
    }
  }
}

function* walk(at: DirectoryNode, place: string): Generator<[string, string | undefined]> {
  for (const [name, node] of at.entries) {
    const child = `${place}/${name}`;
    yield [child, node.kind === "directory" ? undefined : node.data.toString("utf8")];
    if (node.kind === "directory") yield* walk(node, child);
  }
}
