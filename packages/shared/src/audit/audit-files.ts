/** The files of a trail in its directory: `<trail>-<number of its first line>.jsonl`, and where the chain in them ends. */
import { isUtf8 } from "node:buffer";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { type ChainHead, emptyChain, hashOf, type PlacedLine, readLine } from "./audit-chain.ts";

export interface AuditFileName {
  readonly file: string;
  readonly trail: string;
  readonly first: number;
}

const digits = 16;

export const auditFileName = (trail: string, first: number): string =>
  `${trail}-${String(first).padStart(digits, "0")}.jsonl`;

export const parseFileName = (file: string): AuditFileName | undefined => {
  const [, trail, first] = /^([a-z]+)-(\d{16})\.jsonl$/.exec(path.basename(file)) ?? [];
  return trail === undefined ? undefined : { file, trail, first: Number(first) };
};

/** In the order of their lines. */
export const auditFilesIn = (directory: string): readonly AuditFileName[] =>
  readdirSync(directory)
    .sort()
    .flatMap((name) => parseFileName(path.join(directory, name)) ?? []);

/** The last one is empty, or was not written whole. */
const piecesOf = (file: string): readonly string[] => {
  const bytes = readFileSync(file);
  if (isUtf8(bytes)) return bytes.toString("utf8").split("\n");
  // Bytes that are no text must not read as the sign that stands for such: the line would have the hash of another one.
  const pieces = bytes.toString("latin1").split("\n");
  return pieces.map((piece) => {
    const line = Buffer.from(piece, "latin1");
    return isUtf8(line) ? line.toString("utf8") : piece;
  });
};

export function* linesOf(file: string): Generator<PlacedLine> {
  const pieces = piecesOf(file);
  for (const [at, text] of pieces.entries())
    if (at < pieces.length - 1 || text !== "") yield { file: path.basename(file), line: at + 1, text };
}

export interface ChainEnd {
  readonly head: ChainHead;
  /** Where the next line goes: its size without what was not written whole. Undefined: into a new file. */
  readonly goesOnIn: { readonly file: string; readonly size: number } | undefined;
  /** Bytes of a line that was not written whole. */
  readonly cut: number;
  /** Its last line is none: it stays as it is, for those who look into it. */
  readonly damaged: string | undefined;
}

/** Where the chain of a trail ends on disk, by its newest file and, where that is empty, the one before. */
export const readChainEnd = (files: readonly AuditFileName[]): ChainEnd => {
  const newest = files.at(-1);
  if (newest === undefined) return { head: emptyChain, goesOnIn: undefined, cut: 0, damaged: undefined };
  const whole = piecesOf(newest.file);
  const cut = Buffer.byteLength(whole.at(-1) ?? "");
  const lines = whole.slice(0, -1);
  const text = lines.at(-1);
  if (text === undefined) {
    const before = readChainEnd(files.slice(0, -1));
    const fits = before.head.seq + 1 === newest.first;
    return { ...before, goesOnIn: fits ? { file: newest.file, size: 0 } : undefined, cut };
  }
  const read = readLine(text);
  const size = lines.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0);
  if (read !== undefined) {
    const { seq, hash } = read;
    return { head: { seq, hash }, goesOnIn: { file: newest.file, size }, cut, damaged: undefined };
  }
  const seq = newest.first + lines.length - 1;
  return { head: { seq, hash: hashOf(text) }, goesOnIn: undefined, cut, damaged: path.basename(newest.file) };
};
