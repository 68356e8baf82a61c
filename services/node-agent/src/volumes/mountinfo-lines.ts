/**
 * The lines of a mount table that is read again and again. From one look to the next a line or two change: what stands at the
 * table's beginning and at its end byte for byte as before means what it meant before, and only what lies between is parsed.
 */
import type { MountLine } from "@holdfast/model/mountinfo";
import { parseMountinfo } from "@holdfast/model/mountinfo";

/** The same array as before if nothing changed. `table` may be written over afterwards. */
export type MountinfoLines = (table: Buffer) => readonly MountLine[];

const lineBreak = 0x0a;
/** Compared at once; within the block that differs byte by byte. */
const blockBytes = 1024;

export function createMountinfoLines(): MountinfoLines {
  let kept = Buffer.alloc(0);
  let size = 0;
  let lines: readonly MountLine[] = [];
  /** Where each line begins. */
  let starts: readonly number[] = [];

  return (table) => {
    const before = kept.subarray(0, size);
    const same = sameAtStart(before, table);
    if (same === size && same === table.length) return lines;
    if (table.length > 0 && table.at(-1) !== lineBreak) throw new Error("a table of mounts ends within a line");

    // Whole lines only: of the last one at the beginning no more may be known than that it begins alike.
    const startOf = (index: number): number => starts[index] ?? size;
    let first = starts.length;
    while (first > 0 && startOf(first) > same) first -= 1;
    const from = startOf(first);
    const shift = table.length - size;
    const sameEnd = size - sameAtEnd(before, table, Math.min(size, table.length) - from);
    let last = first;
    while (startOf(last) < sameEnd || !beginsLine(table, startOf(last) + shift)) last += 1;
    const to = startOf(last) + shift;

    const fresh = parseMountinfo(table.toString("utf8", from, to));
    const freshStarts = lineStarts(table, from, to);
    if (freshStarts.length !== fresh.length) throw new Error("a table of mounts has an empty line");
    lines = [...lines.slice(0, first), ...fresh, ...lines.slice(last)];
    starts = [...starts.slice(0, first), ...freshStarts, ...starts.slice(last).map((start) => start + shift)];
    if (kept.length < table.length) kept = Buffer.allocUnsafe(table.length * 2);
    size = table.copy(kept);
    return lines;
  };
}

const beginsLine = (table: Buffer, at: number): boolean => at === 0 || table[at - 1] === lineBreak;

function lineStarts(table: Buffer, from: number, to: number): number[] {
  const starts: number[] = [];
  for (let at = from; at < to; at = table.indexOf(lineBreak, at) + 1) starts.push(at);
  return starts;
}

/** How many bytes are the same from the beginning on. */
function sameAtStart(a: Buffer, b: Buffer): number {
  const limit = Math.min(a.length, b.length);
  let at = 0;
  while (at + blockBytes <= limit && a.compare(b, at, at + blockBytes, at, at + blockBytes) === 0) at += blockBytes;
  while (at < limit && a[at] === b[at]) at += 1;
  return at;
}

/** The same from the end, no more than `limit`. */
function sameAtEnd(a: Buffer, b: Buffer, limit: number): number {
  const [endA, endB] = [a.length, b.length];
  let count = 0;
  for (let next = blockBytes; next <= limit; next += blockBytes) {
    if (a.compare(b, endB - next, endB - count, endA - next, endA - count) !== 0) break;
    count = next;
  }
  while (count < limit && a[endA - 1 - count] === b[endB - 1 - count]) count += 1;
  return count;
}
