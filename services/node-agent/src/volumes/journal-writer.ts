/**
 * The journal's file: appended to, synced, rewritten when it has grown.
 *
 * J1 `append` resolves only once its bytes are as safe as was asked: on disk, or with the kernel; its `safe` runs first, in the
 *    order of the records.
 * J2 One write at a time, each synced before the next, so that only the last frame can be torn (journal-format.ts), and what
 *    did not wait for its sync is on disk before anything that does.
 * J3 Whoever waits while a sync runs shares the next one, and is as safe as the one that asked for most.
 * J4 After a failed write or sync nothing more is written: the kernel may have dropped what it could not write, and
 *    nobody can tell what is on disk. The process has to end and read again. Only a disk without room is waited for (room-wait.ts): what
 *    waits is answered to nobody, and nothing is written behind it.
 * J5 A rewritten file is complete and synced before it takes the name, and the name is synced before it is used.
 */
import { constants } from "node:fs";
import { type FileHandle, open, rename, rm, statfs } from "node:fs/promises";
import { setImmediate as eventLoopTurn } from "node:timers/promises";
import { isAbort } from "@holdfast/shared/async/signals";
import type { Survival } from "../domain/record-survival.ts";
import type { Failpoint } from "../failpoints.ts";
import { syncData as fdatasync, isDiskFull, syncDirectory, writeAll } from "./durable-files.ts";
import { encodeFrame, encodeHeader, type JournalHeader } from "./journal-format.ts";
import { createRoomWait } from "./room-wait.ts";

export interface JournalOptions {
  readonly dir: string;
  readonly machine: string;
  readonly newUid: () => string;
  readonly failpoint: Failpoint;
  /** Above this no permit is taken; releases may use as much again. */
  readonly maxBytes: number;
  /** So much has to be free on the disk. */
  readonly minFreeBytes: number;
  /** J4 */
  readonly onFatal: (error: Error) => void;
  /** True: a write waits for room on the disk now. */
  readonly onWait?: (waits: boolean) => void;
  /** fdatasync(2), unless a test has a disk of its own. */
  readonly syncData?: (file: FileHandle) => Promise<void>;
}

/** Records for a rewritten file, in parts that become frames. */
export type Snapshot = () => Iterable<readonly unknown[]>;

export interface JournalWriter {
  append(records: readonly unknown[], survival: Survival, safe: () => void): Promise<void>;
  /** Where a rewrite gets its records from; without it the file only grows. */
  rewriteFrom(snapshot: Snapshot): void;
  /** Rewrites now. */
  rewrite(): Promise<void>;
  fullBecause(): string | undefined;
  /** Why no record can be written now, or undefined: one waits for room. */
  waitsBecause(): string | undefined;
  syncs(): number;
  bytes(): number;
  close(): Promise<void>;
}

interface Waiting {
  readonly records: readonly unknown[];
  readonly survival: Survival;
  readonly safe: () => void;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

const smallestRewrite = 1 << 20;
/** What others write to the disk is seen at the latest after this long. */
const freshMs = 1_000;

/**
 * The file is open twice. A write through `synced` returns as write and fdatasync together do ("synchronized I/O data integrity
 * completion"), failures included: one turn through the thread pool instead of two. A write through `plain` returns as soon as
 * the kernel has it.
 */
interface Handles {
  readonly plain: FileHandle;
  readonly synced: FileHandle;
}

async function openTwice(file: string): Promise<Handles> {
  const plain = await open(file, constants.O_WRONLY);
  return { plain, synced: await open(file, constants.O_WRONLY | constants.O_DSYNC) };
}

const closeBoth = async ({ plain, synced }: Handles): Promise<void> => {
  await plain.close();
  await synced.close();
};

export function createJournalWriter(options: JournalOptions, file: string, temporary: string, header: JournalHeader) {
  const { dir, failpoint, maxBytes, minFreeBytes, onFatal, onWait = () => undefined, syncData = fdatasync } = options;
  const room = createRoomWait({ isFull: isDiskFull, onChange: onWait });
  let handles: Handles | undefined;
  let sequence = 0;
  let bytes = 0;
  /** Of the last rewritten file. 0 in a new life: how much of the file is still of use is not known before a rewrite. */
  let snapshotBytes = 0;
  let closed = false;
  let syncs = 0;
  let waiting: Waiting[] = [];
  let running: Promise<void> | undefined;
  let snapshot: Snapshot | undefined;
  let wantRewrite = false;
  let broken: Error | undefined;
  let freeBytes = Number.POSITIVE_INFINITY;
  let statAt = 0;
  let statTime = 0;

  const fail = (error: unknown): Error => {
    broken = error instanceof Error ? error : new Error(String(error));
    for (const it of waiting.splice(0)) it.reject(broken);
    onFatal(broken); // J4
    return broken;
  };

  const measureDisk = async (): Promise<void> => {
    statAt = bytes;
    statTime = performance.now();
    const { bavail, bsize } = await statfs(dir);
    freeBytes = bavail * bsize;
  };

  /** J5: the file under its other name, whole and synced, and open for what follows. */
  const prepare = async (parts: Iterable<readonly unknown[]>) => {
    const next = await open(temporary, constants.O_CREAT | constants.O_TRUNC | constants.O_WRONLY, 0o600);
    let size = 0;
    let frames = 0;
    const write = async (frame: Buffer): Promise<void> => {
      await writeAll(next, frame, size);
      size += frame.length;
    };
    try {
      await write(encodeHeader(header));
      for (const part of parts) {
        frames += 1;
        await write(encodeFrame(frames, part));
      }
      failpoint("agent.compact.after-write");
      await next.sync();
    } finally {
      await next.close();
    }
    return { next: await openTwice(temporary), size, frames };
  };

  /** J5 */
  const begin = async (parts: Iterable<readonly unknown[]>): Promise<void> => {
    const { next, size, frames } = await prepare(parts);
    await take(next, size, frames);
  };

  const take = async (next: Handles, size: number, frames: number): Promise<void> => {
    await rename(temporary, file);
    failpoint("agent.compact.after-rename");
    await syncDirectory(dir);
    if (handles !== undefined) await closeBoth(handles);
    handles = next;
    bytes = size;
    sequence = frames;
    await measureDisk();
  };

  /** A disk without room for a second file is no reason to end: the first is whole and goes on. */
  const rewriteNow = async (from: Snapshot): Promise<void> => {
    wantRewrite = false;
    const prepared = await prepare(from()).catch(async (error: unknown) => {
      if (!isDiskFull(error)) throw error;
      await rm(temporary, { force: true });
      await measureDisk();
      return undefined;
    });
    if (prepared !== undefined) await take(prepared.next, prepared.size, prepared.frames);
    snapshotBytes = bytes;
  };

  const rewriteDue = (): boolean => {
    if (snapshot === undefined) return false;
    if (wantRewrite) return true;
    return bytes > smallestRewrite && (bytes > 4 * snapshotBytes || (bytes > maxBytes && bytes > 1.2 * snapshotBytes));
  };

  const writeBatch = async (batch: readonly Waiting[]): Promise<void> => {
    const to = handles;
    if (to === undefined) throw new Error("the journal was closed");
    const waits = batch.some(({ survival }) => survival === "host");
    const frame = encodeFrame(
      sequence + 1,
      batch.flatMap((it) => it.records),
    );
    await room.make(() => writeAll(waits ? to.synced : to.plain, frame, bytes));
    failpoint("agent.journal.after-write");
    syncs += 1;
    sequence += 1;
    bytes += frame.length;
    for (const it of batch) {
      it.safe(); // J1
      it.resolve();
    }
    if (waits) return;
    await eventLoopTurn(); // Whoever waited for this goes on first.
    await syncData(to.plain); // J2
  };

  /** J2, J3: one loop at a time; what arrives meanwhile goes into its next turn. */
  const run = async (): Promise<void> => {
    try {
      while (waiting.length > 0 || rewriteDue()) {
        const batch = waiting;
        waiting = [];
        try {
          if (batch.length > 0) await writeBatch(batch);
        } catch (error) {
          for (const it of batch) it.reject(error as Error);
          throw error;
        }
        if (rewriteDue() && snapshot !== undefined) await rewriteNow(snapshot);
        if (bytes - statAt > 256 << 10) await measureDisk();
      }
    } catch (error) {
      if (room.ended() && isAbort(error)) await giveUp(error as Error);
      else fail(error);
    } finally {
      running = undefined;
    }
  };

  /** The end came while a write waited for room: what there is of its frame is cut off, for the next life to go on where this one ends. */
  const giveUp = async (error: Error): Promise<void> => {
    for (const it of waiting.splice(0)) it.reject(error);
    await handles?.plain.truncate(bytes);
    await handles?.plain.datasync();
  };

  const waitsBecause = (): string | undefined =>
    room.waits()
      ? `the disk of ${file} is full, and the journal waits: free some space, and everything goes on by itself`
      : undefined;

  const kick = (): Promise<void> => {
    running ??= run();
    return running;
  };

  return {
    begin,
    async resume(size: number, last: number) {
      handles = await openTwice(file);
      // What a life that was killed had written may not be on disk yet. It was read and is believed; and the writes to come
      // sync nothing but themselves.
      await handles.plain.datasync();
      bytes = size;
      sequence = last;
      await measureDisk();
    },
    journal: {
      append(records: readonly unknown[], survival: Survival, safe: () => void): Promise<void> {
        if (broken !== undefined) return Promise.reject(broken);
        if (handles === undefined || closed)
          return Promise.reject(new Error("the journal is damaged or closed: nothing is written"));
        return new Promise<void>((resolve, reject) => {
          waiting.push({ records, survival, safe, resolve, reject });
          void kick();
        });
      },
      rewriteFrom(from: Snapshot) {
        snapshot = from;
      },
      async rewrite() {
        wantRewrite = true;
        await kick();
        if (broken !== undefined) throw broken;
      },
      waitsBecause,
      fullBecause() {
        if (freeBytes < minFreeBytes || performance.now() - statTime > freshMs)
          void measureDisk().catch(() => undefined);
        if (room.waits()) return waitsBecause();
        if (freeBytes < minFreeBytes)
          return `${dir} has ${freeBytes} bytes left, ${minFreeBytes} are kept for releases: free some space`;
        if (bytes < maxBytes) return undefined;
        return `the journal in ${dir} holds ${bytes} bytes, ${maxBytes} are allowed: release volumes, or raise HOLDFAST_JOURNAL_MAX_BYTES`;
      },
      syncs: () => syncs,
      bytes: () => bytes,
      async close() {
        closed = true;
        room.end();
        await running;
        if (handles !== undefined) await closeBoth(handles);
        handles = undefined;
      },
    },
  };
}
