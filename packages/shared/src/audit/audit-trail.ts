/**
 * A trail of the audit: lines that are only ever added, in files of a bounded size and number, chained over files and over restarts.
 *
 * AT1 What `append` has answered true for is with the kernel, and outlives the process; what `commit` has resolved for is on disk.
 * AT2 A line is whole or is not there: what a failed write left is cut off before the next one, and what a crash left at the next start, which
 * says so. AT3 After a sync that failed the kernel may have dropped what it was to keep: all since the last good one is taken back and counts
 * as missing. AT4 What could not be written is counted, and told once for a row of failures; the next line that can be written says how many
 * are missing. AT5 Nothing here throws but `commit`, and that with AuditUnwritable. AT6 The last of a disk is not for the audit: a journal
 * beside it needs it for what undoes mounts.
 */
import path from "node:path";
import type { Logger } from "../log/logger.ts";
import { type AuditFields, type ChainHead, emptyChain, nextLine } from "./audit-chain.ts";
import type { AuditDisk } from "./audit-disk.ts";
import { type AuditFileName, auditFileName, auditFilesIn, readChainEnd } from "./audit-files.ts";
import { createSharedSync } from "./shared-sync.ts";

export class AuditUnwritable extends Error {
  /** The system's word, such as ENOSPC. */
  readonly code: string;

  constructor(directory: string, code: string) {
    super(`the audit below ${directory} cannot be written (${code})`);
    this.name = "AuditUnwritable";
    this.code = code;
  }
}

export interface AuditTrail {
  /** With the kernel when it returns; false: it could not be written (AT4). */
  append(fields: AuditFields): boolean;
  /** On disk when it resolves. Those who wait at once share a sync. */
  commit(fields: AuditFields): Promise<void>;
  /** Since when, and the system's word why, lines cannot be written. */
  failing(): { readonly since: number; readonly code: string } | undefined;
  head(): ChainHead;
  close(): void;
}

export interface AuditTrailOptions {
  readonly directory: string;
  /** The first word of its files. */
  readonly name: string;
  /** Of the lines that tell of this start: who writes here. */
  readonly by: Readonly<Record<string, string>>;
  readonly maxFiles: number;
  /** Of one file; a new one is begun above it. */
  readonly maxBytes?: number;
  readonly disk: AuditDisk;
  readonly now: () => number;
  readonly log: Logger;
  readonly onMissing: (lines: number) => void;
}

export const defaultMaxBytes = 16 * 1024 * 1024;
/** More than the agent's journal keeps free by itself. */
export const leftFree = 32 * 1024 * 1024;

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : String(error);

const full = (why: string): Error => Object.assign(new Error(why), { code: "ENOSPC" });

/** How far the file is on disk for certain. */
interface Safe {
  readonly size: number;
  readonly head: ChainHead;
}

export const openAuditTrail = (options: AuditTrailOptions): AuditTrail => {
  const { directory, name, by, maxFiles, maxBytes = defaultMaxBytes, disk, now, log, onMissing } = options;
  let head: ChainHead = emptyChain;
  let files: readonly AuditFileName[] = [];
  let fd: number | undefined;
  let size = 0;
  let safe: Safe = { size: 0, head };
  /** What stands behind `size` has to go first (AT2). */
  let torn = false;
  /** Lines that a `commit` waits for are not on disk yet. */
  let unsynced = false;
  /** `commit` was called at least once: this trail is synced. */
  let waitedFor = false;
  /** How often lines were taken back (AT3). */
  let takenBack = 0;
  /** What the next line has to tell first (AT4). */
  let gap: { readonly since: number; readonly code: string; readonly missing: number } | undefined;
  /** The counts in those lines of a gap that may not be on disk yet. */
  let toldUnsafe: readonly number[] = [];
  let streak: { readonly since: number; readonly code: string; readonly bySync: boolean } | undefined;
  let closed = false;

  const failed = (error: unknown, missing: number, bySync: boolean, counted = 0): void => {
    const code = codeOf(error);
    if (missing > counted) onMissing(missing - counted);
    if (streak === undefined) log.error("the audit cannot be written", { trail: name, directory, error });
    streak = { since: streak?.since ?? now(), code, bySync: bySync || streak?.bySync === true };
    gap = { since: gap?.since ?? streak.since, code, missing: (gap?.missing ?? 0) + missing };
  };

  const worksAgain = (): void => {
    if (streak === undefined) return;
    log.warn("the audit can be written again", { trail: name, since: new Date(streak.since).toISOString() });
    streak = undefined;
  };

  /** What stands behind the last whole line goes. */
  const mend = (): void => {
    if (fd === undefined || !torn) return;
    disk.truncate(fd, size);
    torn = false;
  };

  const put = (lines: readonly AuditFields[]): void => {
    if (fd === undefined) throw new Error("no file is open");
    mend();
    torn = true;
    let after = head;
    let text = "";
    for (const fields of lines) {
      const line = nextLine(after, now(), fields);
      after = line.head;
      text += `${line.text}\n`;
    }
    const bytes = Buffer.from(text);
    if (disk.write(fd, bytes) !== bytes.length) throw full("a line was written in part: the disk is full");
    torn = false;
    size += bytes.length;
    head = after;
  };

  const useFile = (file: string, at: number): void => {
    if (disk.room(directory) < maxBytes - at + leftFree) throw full("the disk has no room for a file of the audit"); // AT6
    fd = disk.open(file);
    size = at;
    torn = true;
    safe = { size, head };
  };

  const newFile = (): string => path.join(directory, auditFileName(name, head.seq + 1));

  /** The chain as it stands on disk, and a first line that says who goes on with it. */
  const open = (): void => {
    disk.makeDirectory(directory);
    files = auditFilesIn(directory).filter(({ trail }) => trail === name);
    const { head: end, goesOnIn, cut, damaged } = readChainEnd(files);
    head = end;
    const { file, size: at } = goesOnIn ?? { file: newFile(), size: 0 };
    if (goesOnIn === undefined) files = [...files, { file, trail: name, first: head.seq + 1 }];
    useFile(file, at);
    const told = { ...(cut === 0 ? {} : { cut_bytes: cut }), ...(damaged === undefined ? {} : { damaged }) };
    try {
      put([{ kind: "opened", ...by, ...told }]);
    } catch (error) {
      if (fd !== undefined) disk.close(fd);
      fd = undefined;
      throw error;
    }
    if (cut > 0 || damaged !== undefined) log.warn("the audit did not end with a whole line", { trail: name, ...told });
    log.info("the audit goes on", { trail: name, ...head });
  };

  const removeOldest = (): void => {
    const removed = files.slice(0, Math.max(0, files.length - maxFiles));
    const kept = files[removed.length];
    if (removed.length === 0 || kept === undefined) return;
    put([{ kind: "removed", through: kept.first - 1 }]);
    for (const { file } of removed)
      try {
        disk.remove(file);
      } catch (error) {
        log.warn("a file of the audit that is too old cannot be removed", { file, error });
      }
    files = files.slice(removed.length);
  };

  /** AT3 */
  const takeBack = (error: unknown): void => {
    const told = toldUnsafe.reduce((sum, lines) => sum + lines, 0);
    failed(error, head.seq - safe.head.seq - toldUnsafe.length + told, true, told);
    ({ size, head } = safe);
    torn = true;
    unsynced = false;
    toldUnsafe = [];
    takenBack += 1;
    try {
      mend();
    } catch {
      // Before the next line, then.
    }
  };

  const rotate = (): void => {
    const before = fd;
    if (before !== undefined && unsynced)
      try {
        disk.syncNow(before);
        unsynced = false;
      } catch (error) {
        takeBack(error);
        return;
      }
    const file = newFile();
    useFile(file, 0);
    files = [...files, { file, trail: name, first: head.seq + 1 }];
    if (before !== undefined) sync.retire(before);
    log.info("the audit goes on in a new file", { trail: name, ...head });
    removeOldest();
  };

  const append = (fields: AuditFields): boolean => {
    try {
      if (closed) throw new Error("the audit is closed");
      if (fd === undefined) open();
      else if (size >= maxBytes) rotate();
      if (gap === undefined) put([fields]);
      else {
        const { missing, since, code } = gap;
        const telling = missing > 0 ? [{ kind: "gap", missing, since: new Date(since).toISOString(), code }] : [];
        put([...telling, fields]);
        if (missing > 0 && waitedFor) toldUnsafe = [...toldUnsafe, missing];
        gap = undefined;
      }
      if (streak?.bySync === false) worksAgain();
      return true;
    } catch (error) {
      failed(error, 1, false);
      return false;
    }
  };

  const sync = createSharedSync({
    disk,
    async run(through) {
      const target = fd;
      if (target === undefined) throw new Error("the audit is closed");
      const reached: Safe = { size, head };
      const told = toldUnsafe.length;
      unsynced = false;
      try {
        await through(target);
        if (fd !== target) return;
        safe = reached;
        toldUnsafe = toldUnsafe.slice(told);
        worksAgain();
      } catch (error) {
        // What stands in a file that is full by now was synced when the next one was begun.
        if (fd === target) takeBack(error);
        throw error;
      }
    },
  });

  try {
    open();
  } catch (error) {
    failed(error, 0, false);
  }

  return {
    append,
    async commit(fields) {
      waitedFor = true;
      const written = append(fields);
      const then = takenBack;
      if (!written) throw new AuditUnwritable(directory, streak?.code ?? "closed");
      unsynced = true;
      try {
        await sync.wait();
      } catch (error) {
        throw new AuditUnwritable(directory, codeOf(error));
      }
      if (takenBack !== then) throw new AuditUnwritable(directory, streak?.code ?? "EIO");
    },
    failing: () => (streak === undefined ? undefined : { since: streak.since, code: streak.code }),
    head: () => head,
    close() {
      if (closed) return;
      append({ kind: "closed" });
      closed = true;
      if (fd !== undefined) sync.retire(fd);
      fd = undefined;
      log.info("the audit ends", { trail: name, ...head });
    },
  };
};
