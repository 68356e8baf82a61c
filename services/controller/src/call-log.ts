/**
 * Texts that stand for calls under way, beside the store: the next life of the process reads which of them stood when this one ended.
 *
 * CL1 What `put` has returned for outlives the process, also one that is killed in the next instant: it is with the kernel, and nothing
 * waits for a disk. With the kernel the plugins' processes on that host end as well, and no life of another boot is taken for over (D3).
 * CL2 A line that was not written whole is none: the call that it would stand for did not leave. CL3 The file is written anew before it
 * grows beyond a bound.
 */
import { closeSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { readDurableText, writeDurableText } from "@holdfast/shared/durable-text";

export interface CallLog {
  /** By number, what stood when it was opened and was not dropped since. */
  before(): ReadonlyMap<number, string>;
  /** In the place of what has that number, or under a new one; answers it. Throws where it cannot be written. */
  put(text: string, n?: number): number;
  drop(n: number): void;
  close(): void;
}

const mostBytes = 1_048_576;

/** The last piece is empty, or was not written whole (CL2). */
const read = (text: string): Map<number, string> => {
  const standing = new Map<number, string>();
  for (const line of text.split("\n").slice(0, -1)) {
    const [, n = "", kept = ""] = /^(\d+) (.*)$/.exec(line) ?? [];
    if (n === "") continue;
    if (kept === "") standing.delete(Number(n));
    else standing.set(Number(n), kept);
  }
  return standing;
};

export const openCallLog = (file: string, most = mostBytes): CallLog => {
  const standing = read(readDurableText(file) ?? "");
  const before = new Map(standing);
  let last = Math.max(0, ...standing.keys());
  let size = 0;
  let fd: number | undefined;

  const writeAnew = (): void => {
    const text = [...standing].map(([n, kept]) => `${n} ${kept}\n`).join("");
    writeDurableText(file, text);
    if (fd !== undefined) closeSync(fd);
    fd = openSync(file, "a", 0o600);
    size = Buffer.byteLength(text);
  };

  const append = (n: number, text: string): void => {
    if (fd === undefined) throw new Error("the log of calls is closed");
    const line = Buffer.from(`${n} ${text}\n`);
    let written = 0;
    try {
      written = writeSync(fd, line);
    } catch (cause) {
      throw new Error(`the file ${file} takes no more: ${cause instanceof Error ? cause.message : String(cause)}`, {
        cause,
      });
    }
    size += written;
    if (written === line.length) return;
    ftruncateSync(fd, size - written);
    size -= written;
    throw new Error(`the file ${file} takes no more: the disk is full`);
  };

  /** CL3. What stands may be more than the bound by itself. */
  const keepSmall = (): void => {
    if (size > most && size > 2 * [...standing.values()].reduce((sum, kept) => sum + kept.length, 0)) writeAnew();
  };

  writeAnew();
  return {
    before: () => before,
    put(text, n = last + 1) {
      append(n, text); // CL1
      last = Math.max(last, n);
      standing.set(n, text);
      if (before.has(n)) before.set(n, text);
      keepSmall();
      return n;
    },
    drop(n) {
      before.delete(n);
      if (!standing.delete(n)) return;
      append(n, "");
      keepSmall();
    },
    close() {
      if (fd !== undefined) closeSync(fd);
      fd = undefined;
    },
  };
};
