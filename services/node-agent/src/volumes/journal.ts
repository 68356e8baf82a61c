/**
 * The journal's file: appended to, synced before anybody goes on, rewritten when it has grown.
 *
 * J1 `append` resolves only after fdatasync; its `synced` runs first, in the order of the records.
 * J2 One write at a time and a sync after each, so that only the last frame can be torn (journal-format.ts).
 * J3 Whoever waits while a sync runs shares the next one.
 * J4 After a failed write or sync nothing more is written: the kernel may have dropped what it could not write, and
 *    nobody can tell what is on disk. The process has to end and read again.
 * J5 A rewritten file is complete and synced before it takes the name, and the name is synced before it is used.
 */
import { constants } from "node:fs";
import { type FileHandle, open, readFile, rename, rm, statfs } from "node:fs/promises";
import path from "node:path";
import type { Failpoint } from "../failpoints.ts";
import {
  encodeFrame,
  encodeHeader,
  type JournalHeader,
  type JournalReading,
  journalFormat,
  readJournal,
} from "./journal-format.ts";

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
}

/** Records for a rewritten file, in parts that become frames. */
export type Snapshot = () => Iterable<readonly unknown[]>;

export interface Journal {
  readonly uid: string;
  readonly damage: string | undefined;
  /** What the file held when it was opened. */
  readonly records: readonly unknown[];
  append(records: readonly unknown[], synced: () => void): Promise<void>;
  /** Where a rewrite gets its records from; without it the file only grows. */
  rewriteFrom(snapshot: Snapshot): void;
  /** Rewrites now. */
  rewrite(): Promise<void>;
  fullBecause(): string | undefined;
  syncs(): number;
  bytes(): number;
  close(): Promise<void>;
}

interface Waiting {
  readonly records: readonly unknown[];
  readonly synced: () => void;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

const smallestRewrite = 1 << 20;

export async function openJournal(options: JournalOptions): Promise<Journal> {
  const file = path.join(options.dir, "journal");
  const temporary = path.join(options.dir, "journal.new");
  await rm(temporary, { force: true });
  const found = await readIfThere(file);
  const reading: JournalReading = found === undefined ? fresh(options) : readJournal(found);
  if (reading.kind === "newer") {
    throw new Error(
      `${file} has format ${reading.format}, this agent knows up to ${journalFormat}: run the version that wrote it, or a newer one`,
    );
  }
  const journal = reading.journal;
  if (journal !== undefined && journal.header.machine !== options.machine) {
    throw new Error(
      `${file} belongs to machine ${journal.header.machine}, this is ${options.machine}: a state directory must not be copied; remove it on the copy`,
    );
  }
  const damage =
    reading.kind === "damaged"
      ? `${file} is damaged at byte ${reading.at}: ${reading.why}. Restore it, or move it away once you have looked at what is mounted; the node then registers anew`
      : undefined;
  const uid = journal?.header.uid ?? options.newUid();
  const records = journal?.records ?? [];
  const writer = createWriter(options, file, temporary, { format: journalFormat, uid, machine: options.machine });
  if (damage === undefined) {
    // A file that ends cleanly is gone on with; a torn end is cut by rewriting what was good.
    const clean =
      found !== undefined && journal !== undefined && journal.goodBytes === found.length && !journal.missingBreak;
    if (clean) await writer.resume(journal.goodBytes, journal.sequence);
    else await writer.begin(records.length === 0 ? [] : [records]);
  }
  return { uid, damage, records, ...writer.journal };
}

async function readIfThere(file: string): Promise<Buffer | undefined> {
  try {
    return await readFile(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function fresh({ machine, newUid }: JournalOptions): JournalReading {
  const header = { format: journalFormat, uid: newUid(), machine };
  return { kind: "good", journal: { header, records: [], sequence: 0, goodBytes: 0, missingBreak: false } };
}

function createWriter(options: JournalOptions, file: string, temporary: string, header: JournalHeader) {
  const { dir, failpoint, maxBytes, minFreeBytes, onFatal } = options;
  let handle: FileHandle | undefined;
  let sequence = 0;
  let bytes = 0;
  let snapshotBytes = 0;
  let syncs = 0;
  let waiting: Waiting[] = [];
  let running: Promise<void> | undefined;
  let snapshot: Snapshot | undefined;
  let wantRewrite = false;
  let broken: Error | undefined;
  let freeBytes = Number.POSITIVE_INFINITY;
  let statAt = 0;

  const fail = (error: unknown): Error => {
    broken = error instanceof Error ? error : new Error(String(error));
    for (const it of waiting.splice(0)) it.reject(broken);
    onFatal(broken); // J4
    return broken;
  };

  const measureDisk = async (): Promise<void> => {
    statAt = bytes;
    const { bavail, bsize } = await statfs(dir);
    freeBytes = bavail * bsize;
  };

  /** J5 */
  const begin = async (parts: Iterable<readonly unknown[]>): Promise<void> => {
    const next = await open(temporary, constants.O_CREAT | constants.O_TRUNC | constants.O_WRONLY, 0o600);
    let size = 0;
    let frames = 0;
    const write = async (frame: Buffer): Promise<void> => {
      await writeAll(next, frame, size);
      size += frame.length;
    };
    await write(encodeHeader(header));
    for (const part of parts) {
      frames += 1;
      await write(encodeFrame(frames, part));
    }
    failpoint("agent.compact.after-write");
    await next.sync();
    await rename(temporary, file);
    failpoint("agent.compact.after-rename");
    const directory = await open(dir, constants.O_RDONLY);
    await directory.sync();
    await directory.close();
    await handle?.close();
    handle = next;
    bytes = size;
    sequence = frames;
    snapshotBytes = size;
    await measureDisk();
  };

  const rewriteDue = (): boolean => {
    if (snapshot === undefined) return false;
    if (wantRewrite) return true;
    return bytes > smallestRewrite && (bytes > 4 * snapshotBytes || (bytes > maxBytes && bytes > 1.2 * snapshotBytes));
  };

  const writeBatch = async (batch: readonly Waiting[]): Promise<void> => {
    const to = handle;
    if (to === undefined) throw new Error("the journal was closed");
    const frame = encodeFrame(
      sequence + 1,
      batch.flatMap((it) => it.records),
    );
    await writeAll(to, frame, bytes);
    failpoint("agent.journal.after-write");
    await to.datasync();
    syncs += 1;
    sequence += 1;
    bytes += frame.length;
    for (const it of batch) {
      it.synced(); // J1
      it.resolve();
    }
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
        if (rewriteDue() && snapshot !== undefined) {
          wantRewrite = false;
          await begin(snapshot());
        }
        if (bytes - statAt > 256 << 10) await measureDisk();
      }
    } catch (error) {
      fail(error);
    } finally {
      running = undefined;
    }
  };

  const kick = (): Promise<void> => {
    running ??= run();
    return running;
  };

  return {
    begin,
    async resume(size: number, last: number) {
      handle = await open(file, constants.O_WRONLY);
      bytes = size;
      sequence = last;
      snapshotBytes = size;
      await measureDisk();
    },
    journal: {
      append(records: readonly unknown[], synced: () => void): Promise<void> {
        if (broken !== undefined) return Promise.reject(broken);
        if (handle === undefined)
          return Promise.reject(new Error("the journal is damaged or closed: nothing is written"));
        return new Promise<void>((resolve, reject) => {
          waiting.push({ records, synced, resolve, reject });
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
      fullBecause() {
        if (freeBytes < minFreeBytes) {
          void measureDisk().catch(() => undefined);
          return `${dir} has ${freeBytes} bytes left, ${minFreeBytes} are kept for releases: free some space`;
        }
        if (bytes < maxBytes) return undefined;
        return `the journal in ${dir} holds ${bytes} bytes, ${maxBytes} are allowed: release volumes, or raise HOLDFAST_JOURNAL_MAX_BYTES`;
      },
      syncs: () => syncs,
      bytes: () => bytes,
      async close() {
        await running;
        await handle?.close();
        handle = undefined;
      },
    },
  };
}

async function writeAll(handle: FileHandle, data: Buffer, position: number): Promise<void> {
  let done = 0;
  while (done < data.length) {
    const { bytesWritten } = await handle.write(data, done, data.length - done, position + done);
    done += bytesWritten;
  }
}
