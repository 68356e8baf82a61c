/**
 * The kernel's mount table, read off the event loop.
 *
 * T1 A look begins after it was asked for: a table read before the call that it shall judge proves nothing.
 * T2 Whoever asks while a look is under way shares the next one, so that a burst costs two.
 * T3 One read of the own table at a time: the kernel keeps the place of a reader with the open file, and two readers of
 *    one file send each other back into a table that has changed, to lines that are cut or left out.
 */
import { closeSync, readdirSync, readlinkSync, readSync } from "node:fs";
import { open } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { MountLine } from "@holdfast/model/mountinfo";
import type { ForeignMount, MountView } from "../domain/mounts.ts";
import { showsMark } from "../domain/mounts.ts";
import type { MountTable } from "../ports.ts";
import { hostView } from "./host-view.ts";
import { createKernelThreads, type KernelThreads } from "./kernel-threads.ts";
import { createHolderSearch } from "./mount-holders.ts";
import { createMountinfoLines, type MountinfoLines } from "./mountinfo-lines.ts";
import { mountinfoView } from "./mountinfo-view.ts";
import { openedOrGone } from "./opened-or-gone.ts";
import { commandOf, isPid, linkOf, linksATurn } from "./process-links.ts";

/** The kernel lists mounts without gaps while others change since 5.8; before, a table is read until it stands still. */
const stableReads = 3;
/** So many lines are read sooner than the event loop comes round: whoever else may want them reads them again. */
const shortTable = 256;
/** As much as the kernel ever hands out at once. */
const pageBytes = 4096;
/** About a millisecond, as of links. */
const pagesATurn = 32;
const tablesATurn = 16;

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
  const scope = (await hostView(proc)) === "whole" ? "host" : "own-namespace";
  const gapless = isAtLeast(kernel, 5, 8);
  const readTable = createTableReader();
  const linesOf = createMountinfoLines();
  let lines: readonly MountLine[] = [];
  let view = mountinfoView(lines);

  /** Held open: a read from the start makes the kernel list its mounts anew. */
  const file = await open(`${proc}/self/mountinfo`);

  const burst = (): Promise<void> | undefined => (lines.length > shortTable ? nextTurn() : undefined);
  const readOwn = coalesced(burst, async () => {
    let table = await readTable(file);
    for (let count = 1; !gapless && count < stableReads; count += 1) {
      const before = Buffer.from(table);
      table = await readTable(file);
      if (table.equals(before)) break;
    }
    const found = linesOf(table);
    if (found !== lines) view = mountinfoView(found);
    lines = found;
    return view;
  }); // T3

  const kernelThreads = createKernelThreads(proc);
  const readOthers = createOthersReader(proc, scope === "host", kernelThreads);
  const lookOwn = async (): Promise<MountView> => ({ ...(await readOwn()), foreign: () => [] });
  const lookEverywhere = coalesced(burst, async (): Promise<MountView> => {
    const others = await readOthers();
    // Last, so that what is found elsewhere is never newer than what is found here.
    const own = await readOwn();
    return {
      ...own,
      foreign: (marks) =>
        others.flatMap(({ pid, lines: theirs }) =>
          theirs
            .filter((line) => marks.some((mark) => showsMark(line, mark)))
            .map((line) => ({ line, pid: Number(pid), command: commandOf(proc, pid) }) satisfies ForeignMount),
        ),
    };
  });
  return {
    scope,
    findHolder: createHolderSearch(proc),
    look: (everywhere) => (everywhere ? lookEverywhere() : lookOwn()),
    close() {
      kernelThreads.close();
      return file.close();
    },
  };
}

/**
 * T1, T2, T3: who asks before the next look has begun shares it; it begins when the one before has ended and, where a look takes
 * long, the event loop has come round, so that whoever is woken by what arrived together looks together.
 */
function coalesced<T>(gather: () => Promise<void> | undefined, read: () => Promise<T>): () => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  const begin = async (before: Promise<unknown>): Promise<T> => {
    await before;
    await gather();
    next = undefined;
    return read();
  };
  return () => {
    if (next !== undefined) return next;
    next = begin(last);
    last = next.catch(() => undefined);
    return next;
  };
}

/**
 * The kernel answers in pages of its own size, whatever is asked for; nothing follows the last. It answers from memory and
 * never blocks, so that pages are read at once: a turn through the thread pool for each costs more than all of them. A long
 * table gives the event loop its turns. What is read is good until the next read with the same reader.
 */
function createTableReader(): (file: { readonly fd: number }) => Promise<Buffer> {
  let buffer = Buffer.allocUnsafe(8 * pageBytes);
  return async (file) => {
    let size = 0;
    for (let page = 1; ; page += 1) {
      if (buffer.length - size < pageBytes) {
        const longer = Buffer.allocUnsafe(buffer.length * 2);
        buffer.copy(longer, 0, 0, size);
        buffer = longer;
      }
      const bytesRead = readSync(file.fd, buffer, size, pageBytes, size);
      if (bytesRead === 0) return buffer.subarray(0, size);
      size += bytesRead;
      if (page % pagesATurn === 0) await nextTurn();
    }
  };
}

interface OtherTable {
  /** One process that is told so. */
  readonly pid: string;
  readonly lines: readonly MountLine[];
}

/**
 * One process of every other mount namespace stands for all of it, if its root is the namespace's own: one in a chroot is not told of
 * what lies outside. Where all are in one, each root counts. Processes that end meanwhile have let go. The links are read anew each
 * time, since a process may enter another namespace at any moment; synchronously, some at a time: they never block, and a turn through
 * the thread pool costs ten times the call.
 */
function createOthersReader(
  proc: string,
  tellsOfFirst: boolean,
  kernelThreads: KernelThreads,
): () => Promise<readonly OtherTable[]> {
  const readTable = createTableReader();
  /** What each had shown, by namespace and root: parsed again is only what changed. */
  let known = new Map<string, MountinfoLines>();
  let seen = new Map<string, MountinfoLines>();

  /** Never held open: the descriptor would keep the namespace, and all that is mounted in it, for longer than its processes. */
  const linesOf = async (pid: string, place: string): Promise<readonly MountLine[] | undefined> => {
    const fd = openedOrGone(`${proc}/${pid}/mountinfo`);
    if (fd === undefined) return undefined;
    try {
      const table = await readTable({ fd }).catch(() => undefined);
      if (table === undefined || table.length === 0) return undefined;
      const parse = known.get(place) ?? createMountinfoLines();
      seen.set(place, parse);
      return parse(table);
    } finally {
      closeSync(fd);
    }
  };

  const tablesOf = async (namespace: string, pids: readonly string[]): Promise<readonly OtherTable[]> => {
    const confined = new Map<string, string[]>();
    for (const pid of pids) {
      const root = linkOf(`${proc}/${pid}/root`) ?? "";
      if (root === "/") {
        const lines = await linesOf(pid, `${namespace} /`);
        if (lines !== undefined) return [{ pid, lines }];
      } else {
        const members = confined.get(root);
        if (members === undefined) confined.set(root, [pid]);
        else members.push(pid);
      }
    }
    const found: OtherTable[] = [];
    for (const [root, members] of confined)
      for (const pid of members) {
        const lines = await linesOf(pid, `${namespace} ${root}`);
        if (lines === undefined) continue;
        found.push({ pid, lines });
        break;
      }
    return found;
  };

  return async () => {
    const found: OtherTable[] = [];
    let count = 0;
    seen = new Map();
    for (const [namespace, pids] of await namespaceMembers(proc, tellsOfFirst, kernelThreads)) {
      found.push(...(await tablesOf(namespace, pids)));
      count += 1;
      if (count % tablesATurn === 0) await nextTurn();
    }
    known = seen;
    return found;
  };
}

/** The processes of every mount namespace but our own. */
async function namespaceMembers(
  proc: string,
  tellsOfFirst: boolean,
  kernelThreads: KernelThreads,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const own = readlinkSync(`${proc}/self/ns/mnt`);
  // Where the first process is, it stands for them.
  const first = tellsOfFirst ? namespaceOf(proc, "1") : undefined;
  const passedOver = kernelThreads.within(first ?? own);
  const members = new Map<string, string[]>();
  let links = 0;
  for (const pid of readdirSync(proc)) {
    if (!isPid(pid) || passedOver.has(pid)) continue;
    links += 1;
    if (links % linksATurn === 0) await nextTurn();
    const namespace = (pid === "1" ? first : namespaceOf(proc, pid)) ?? own;
    if (namespace === own) continue;
    const known = members.get(namespace);
    if (known === undefined) members.set(namespace, [pid]);
    else known.push(pid);
  }
  return members;
}

const namespaceOf = (proc: string, pid: string): string | undefined => linkOf(`${proc}/${pid}/ns/mnt`);

function isAtLeast(release: string, major: number, minor: number): boolean {
  const [, found = "0", below = "0"] = /^(\d+)\.(\d+)/.exec(release) ?? [];
  return Number(found) > major || (Number(found) === major && Number(below) >= minor);
}
