/**
 * The kernel's mount table, read off the event loop.
 *
 * T1 A look begins after it was asked for: a table read before the call that it shall judge proves nothing.
 * T2 Whoever asks while a look is under way shares the next one, so that a burst costs two.
 * T3 One read of the own table at a time: the kernel keeps the place of a reader with the open file, and two readers of
 *    one file send each other back into a table that has changed, to lines that are cut or left out.
 */
import { readdirSync, readlinkSync, readSync } from "node:fs";
import { type FileHandle, open, readFile, readlink } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ForeignMount, MountLine, MountView } from "../domain/mounts.ts";
import { showsMark } from "../domain/mounts.ts";
import type { MountTable } from "../ports.ts";
import { mountinfoView, parseMountinfo } from "./mountinfo.ts";

/** The inode of the first pid namespace: constant in Linux (PROC_PID_INIT_INO). From there every process is seen. */
const firstPidNamespace = "pid:[4026531836]";

/** The kernel lists mounts without gaps while others change since 5.8; before, a table is read until it stands still. */
const stableReads = 3;
/** As much as the kernel ever hands out at once. */
const pageBytes = 4096;
/** About a millisecond, each of the two. */
const linksATurn = 256;
const pagesATurn = 32;

export interface OpenMountTable extends MountTable {
  close(): Promise<void>;
}

export interface MountTableOptions {
  /** /proc, or a stand-in. */
  readonly proc: string;
  /** os.release() */
  readonly kernel: string;
}

export async function createMountTable({ proc, kernel }: MountTableOptions): Promise<OpenMountTable> {
  const seesAll = (await readlink(`${proc}/self/ns/pid`)) === firstPidNamespace;
  // Without CAP_SYS_PTRACE the processes are listed and their mounts are not told: that verifies nothing.
  const scope = seesAll && namespaceOf(proc, "1") !== undefined ? "host" : "own-namespace";
  const gapless = isAtLeast(kernel, 5, 8);
  let cached: { text: string; lines: readonly MountLine[]; view: Omit<MountView, "foreign"> } | undefined;

  /** Held open: a read from the start makes the kernel list its mounts anew. */
  const file = await open(`${proc}/self/mountinfo`);

  const readOwn = coalesced(async () => {
    let text = await readWhole(file);
    for (let count = 1; !gapless && count < stableReads; count += 1) {
      const again = await readWhole(file);
      if (again === text) break;
      text = again;
    }
    if (cached?.text !== text) {
      const lines = parseMountinfo(text);
      cached = { text, lines, view: mountinfoView(lines) };
    }
    return cached.view;
  }); // T3

  const lookOwn = async (): Promise<MountView> => ({ ...(await readOwn()), foreign: () => [] });
  const lookEverywhere = coalesced(async (): Promise<MountView> => {
    const others = await readOthers(proc);
    // Last, so that what is found elsewhere is never newer than what is found here.
    const own = await readOwn();
    return {
      ...own,
      foreign: (marks) => others.filter(({ line }) => marks.some((mark) => showsMark(line, mark))),
    };
  });
  return {
    scope,
    look: (everywhere) => (everywhere ? lookEverywhere() : lookOwn()),
    close: () => file.close(),
  };
}

/** T1, T2, T3: who asks before the next look has begun shares it; it begins when the one before has ended. */
function coalesced<T>(read: () => Promise<T>): () => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  return () => {
    if (next !== undefined) return next;
    next = last.then(() => {
      next = undefined;
      return read();
    });
    last = next.catch(() => undefined);
    return next;
  };
}

/**
 * The kernel answers in pages of its own size, whatever is asked for; nothing follows the last. It answers from memory, so that the
 * first pages are read at once: a turn through the thread pool for each costs more than all of them. A long table is read off the loop.
 */
async function readWhole(file: FileHandle): Promise<string> {
  const parts: Buffer[] = [];
  for (let position = 0; ; ) {
    const part = Buffer.allocUnsafe(pageBytes);
    const bytesRead =
      parts.length < pagesATurn
        ? readSync(file.fd, part, 0, pageBytes, position)
        : (await file.read(part, 0, pageBytes, position)).bytesRead;
    if (bytesRead === 0) return Buffer.concat(parts).toString("utf8");
    parts.push(part.subarray(0, bytesRead));
    position += bytesRead;
  }
}

/**
 * One process of every other mount namespace stands for all of it. Processes that end meanwhile have let go. The links are
 * read synchronously, some at a time: they never block, and a turn through the thread pool costs ten times the call.
 */
async function readOthers(proc: string): Promise<readonly ForeignMount[]> {
  const own = readlinkSync(`${proc}/self/ns/mnt`);
  const members = new Map<string, string[]>();
  const pids = readdirSync(proc).filter((name) => /^\d+$/.test(name));
  for (const [at, pid] of pids.entries()) {
    if (at % linksATurn === linksATurn - 1) await nextTurn();
    const namespace = namespaceOf(proc, pid) ?? own;
    if (namespace === own) continue;
    const known = members.get(namespace);
    if (known === undefined) members.set(namespace, [pid]);
    else known.push(pid);
  }
  const found = await Promise.all([...members.values()].map((ofOne) => readOne(proc, ofOne)));
  return found.flat();
}

function namespaceOf(proc: string, pid: string): string | undefined {
  try {
    return readlinkSync(`${proc}/${pid}/ns/mnt`);
  } catch {
    return undefined;
  }
}

async function readOne(proc: string, pids: readonly string[]): Promise<readonly ForeignMount[]> {
  for (const pid of pids) {
    const text = await readFile(`${proc}/${pid}/mountinfo`, "utf8").catch(() => "");
    if (text === "") continue;
    const command = (await readFile(`${proc}/${pid}/comm`, "utf8").catch(() => "?")).trim();
    return parseMountinfo(text).map((line) => ({ line, pid: Number(pid), command }));
  }
  return [];
}

function isAtLeast(release: string, major: number, minor: number): boolean {
  const [, found = "0", below = "0"] = /^(\d+)\.(\d+)/.exec(release) ?? [];
  return Number(found) > major || (Number(found) === major && Number(below) >= minor);
}
