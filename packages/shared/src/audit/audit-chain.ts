/**
 * A chain of lines, each a JSON object that begins with its number and with the hash of the line before it.
 *
 * AC1 The hash of a line is the SHA-256 of its very text, so that `sha256sum` shows it too. AC2 Numbers begin at 1 and leave none out. AC3 What
 * a chain cannot show is a change of its last line, or its end cut off: for that its head has to be known from elsewhere.
 */
import { hash } from "node:crypto";

type AuditValue = string | number | boolean | undefined | readonly string[] | { readonly [field: string]: AuditValue };

/** What a line says besides its place; what is undefined is left out. */
export interface AuditFields {
  readonly kind: string;
  readonly seq?: never;
  readonly prev?: never;
  readonly at?: never;
  readonly [field: string]: AuditValue;
}

/** The last line of a chain. */
export interface ChainHead {
  readonly seq: number;
  readonly hash: string;
}

export const emptyChain: ChainHead = { seq: 0, hash: "0".repeat(64) };

export const hashOf = (text: string): string => hash("sha256", text, "hex");

export const nextLine = (
  { seq, hash: prev }: ChainHead,
  at: number,
  { kind, ...more }: AuditFields,
): { readonly text: string; readonly head: ChainHead } => {
  // A line is known by these, in this order.
  const text = JSON.stringify({ seq: seq + 1, prev, at: new Date(at).toISOString(), kind, ...more });
  return { text, head: { seq: seq + 1, hash: hashOf(text) } };
};

interface ReadLine extends ChainHead {
  readonly prev: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Undefined: it is no line of a chain. */
export const readLine = (text: string): ReadLine | undefined => {
  const [, seq, prev = ""] = /^\{"seq":([1-9]\d{0,15}),"prev":"([0-9a-f]{64})","at":"[^"]*","kind":"/.exec(text) ?? [];
  if (seq === undefined) return undefined;
  try {
    return { seq: Number(seq), prev, hash: hashOf(text), fields: JSON.parse(text) };
  } catch {
    return undefined;
  }
};

export interface PlacedLine {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly text: string;
}

export interface BadLine {
  readonly file: string;
  readonly line: number;
  readonly reason: string;
}

export interface SoundChain {
  readonly count: number;
  readonly first: number;
  readonly head: ChainHead;
  readonly last: Pick<PlacedLine, "file" | "line">;
  /** A line has the hash that was asked for. */
  readonly hasAsked: boolean;
  /** Lines that could not be written, as the chain itself says. */
  readonly missing: number;
  /** The last line of which the chain says that it was removed with its file. */
  readonly removedThrough: number;
}

const bad = ({ file, line }: PlacedLine, reason: string): { readonly bad: BadLine } => ({
  bad: { file, line, reason },
});

const misplaced = (seq: number, before: number): string | undefined => {
  if (seq === before + 1) return undefined;
  if (seq === before + 2) return `is line ${seq} of the chain, and line ${before + 1} is missing before it`;
  if (seq > before) return `is line ${seq} of the chain, and lines ${before + 1} to ${seq - 1} are missing before it`;
  return `is line ${seq} of the chain, and stands after line ${before}: it was put there later, or lines changed places`;
};

const numberIn = (value: unknown): number => (typeof value === "number" ? value : 0);

/** The first line that is not as it was written. A run may begin anywhere in a chain; undefined: there is no line. */
export const checkChain = (
  lines: Iterable<PlacedLine>,
  asked?: string,
): SoundChain | { readonly bad: BadLine } | undefined => {
  const rest = lines[Symbol.iterator]();
  let last: (PlacedLine & ReadLine) | undefined;
  let first = 0;
  let count = 0;
  let missing = 0;
  let removedThrough = 0;
  let hasAsked = false;
  for (let next = rest.next(); next.done !== true; next = rest.next()) {
    const line = next.value;
    const read = readLine(line.text);
    if (read === undefined) return bad(line, "is no line of an audit file, or was not written whole");
    if (last !== undefined) {
      const place = misplaced(read.seq, last.seq);
      if (place !== undefined) return bad(line, place);
      if (read.prev !== last.hash) return unfit(last, { ...line, ...read }, rest.next().value);
    } else if (read.seq === 1 && read.prev !== emptyChain.hash)
      return bad(line, "is the first line of a chain, and names one before it");
    first ||= read.seq;
    count += 1;
    if (read.fields["kind"] === "gap") missing += numberIn(read.fields["missing"]);
    if (read.fields["kind"] === "removed") removedThrough = numberIn(read.fields["through"]);
    hasAsked ||= read.hash === asked;
    last = { ...line, ...read };
  }
  if (last === undefined) return undefined;
  const { file, line, seq, hash: headHash } = last;
  return { count, first, head: { seq, hash: headHash }, last: { file, line }, hasAsked, missing, removedThrough };
};

/** Two neighbours that do not fit: the one after them tells which of the two was changed. */
const unfit = (before: PlacedLine, line: PlacedLine & ReadLine, after: PlacedLine | undefined) => {
  const witness = after === undefined ? undefined : readLine(after.text);
  if (witness?.prev === line.hash)
    return bad(before, "was changed after it was written, or stands in the place of another");
  return bad(line, "does not follow from the line before it: one of the two was changed, or is of another chain");
};
