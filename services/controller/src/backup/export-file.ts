/**
 * The file of a backup: JSON, a line each. First what it is, then every record with its places, last how many there were and the
 * SHA-256 of all lines before. Secrets are in it as the store has them, as ciphertext; plugins' own parameters are not hidden.
 *
 * E1 A file that was cut, or changed in one byte, is refused before anything is written. E2 No two records of a file stand for the
 * same storage, although controllers may go on while it is written: what is put back from it has one owner for each (I1).
 * E3 A file of a newer release is refused as such, and never taken for a damaged one.
 */
import { createHash } from "node:crypto";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { formatsText, readableFormats } from "../domain/store-format.ts";
import type { AggregateKind, PlacedRecord } from "../domain/store-types.ts";
import type { CutIndex } from "../records/snapshot-codec.ts";
import type { VolumeIndex } from "../records/volume/volume-codec.ts";

export const exportFormat = 1;

export interface ExportHead {
  readonly cell: string;
  readonly clusterUid: string;
  /** The format of the records. */
  readonly schema: number;
  readonly gen: number;
  /** When it was begun, for people. */
  readonly at: string;
}

interface Line {
  readonly k: string;
  readonly id: string;
  readonly b: string;
  readonly i: readonly (readonly [index: string, value: string])[];
  readonly q: readonly (readonly [queue: string, at: number])[];
  readonly t?: number;
}

export interface ExportSummary {
  readonly records: number;
  readonly bytes: number;
  readonly digest: string;
}

/** Entries that one record alone carries. */
const owning: ReadonlySet<string> = new Set(["volume-external", "snapshot-external"] satisfies (
  | VolumeIndex
  | CutIndex
)[]);

/** E2: storage was given up by a record that was read already, and taken by one that was read later. */
const ownersIn = () => {
  const owners = new Map<string, string>();
  return ({ ref, indexes }: PlacedRecord): void => {
    for (const { index, value } of indexes) {
      if (!owning.has(index)) continue;
      const key = `${index}:${value}`;
      const before = owners.get(key);
      if (before !== undefined)
        throw new HoldfastError({
          kind: "aborted",
          reason: "EXPORT_MOVED",
          message: `while it was being exported, ${value} went from ${before} to ${ref.kind} ${ref.key}; no file was made, repeat it`,
          metadata: { kind: ref.kind, key: ref.key },
        });
      owners.set(key, `${ref.kind} ${ref.key}`);
    }
  };
};

export const writeExport = async (
  head: ExportHead,
  records: AsyncIterable<PlacedRecord>,
  write: (text: string) => Promise<void>,
): Promise<ExportSummary> => {
  const hash = createHash("sha256");
  let bytes = 0;
  const line = async (content: unknown, hashed: boolean): Promise<void> => {
    const text = `${JSON.stringify(content)}\n`;
    if (hashed) hash.update(text);
    bytes += Buffer.byteLength(text);
    await write(text);
  };
  await line({ holdfast_export: exportFormat, ...head }, true);
  let count = 0;
  const own = ownersIn();
  for await (const record of records) {
    own(record);
    const { ref, body, indexes, due, ttlMs } = record;
    const content: Line = {
      k: ref.kind,
      id: ref.key,
      b: body,
      i: indexes.map(({ index, value }) => [index, value] as const),
      q: due.map(({ queue, at }) => [queue, at] as const),
      ...(ttlMs === undefined ? {} : { t: ttlMs }),
    };
    await line(content, true);
    count += 1;
  }
  const digest = hash.digest("hex");
  await line({ records: count, sha256: digest }, false);
  return { records: count, bytes, digest };
};

/** Of a file: one line of it is wrong, or all of them together. */
type Damaged = (why: string) => HoldfastError;

const damagedFile =
  (file: string): Damaged =>
  (why) =>
    new HoldfastError({
      kind: "invalid",
      reason: "EXPORT_DAMAGED",
      message: `${file} is no whole export: ${why}; nothing was written, use another copy`,
      metadata: { file },
    });

/** Judged by the first line alone: nothing else of a newer file has to be as it is known here. E3 */
const refuseNewer = ({ holdfast_export: format, schema }: Record<string, unknown>, damaged: Damaged): void => {
  if (!Number.isSafeInteger(format)) throw damaged(`its first line says format ${String(format)}`);
  const newer =
    Number(format) > exportFormat
      ? `it is written in format ${format}, this release reads ${exportFormat}`
      : Number(schema) > readableFormats.newest
        ? `its records have format ${schema}, this release reads ${formatsText(readableFormats)}`
        : undefined;
  if (newer === undefined) return;
  throw new HoldfastError({
    kind: "precondition",
    reason: "EXPORT_NEWER",
    message: `a newer release made this export: ${newer}; nothing was written. Import it with the release that made it, or a newer one; the way back to this release is an export from before the upgrade was finished`,
    metadata: { format: String(format), schema: String(schema) },
  });
};

const parsed = (text: string, nth: number, damaged: Damaged): Record<string, unknown> => {
  try {
    const content: unknown = JSON.parse(text);
    if (typeof content === "object" && content !== null && !Array.isArray(content))
      return content as Record<string, unknown>;
  } catch {
    // told below
  }
  throw damaged(`line ${nth} is no JSON object`);
};

const recordOf = (content: Record<string, unknown>, nth: number, damaged: Damaged): PlacedRecord => {
  const { k, id, b, i, q, t } = content as unknown as Line;
  if (
    typeof k !== "string" ||
    typeof id !== "string" ||
    typeof b !== "string" ||
    !Array.isArray(i) ||
    !Array.isArray(q)
  )
    throw damaged(`line ${nth} is no record`);
  return {
    ref: { kind: k as AggregateKind, key: id },
    body: b,
    indexes: i.map(([index, value]) => ({ index, value })),
    due: q.map(([queue, at]) => ({ queue, at })),
    ...(t === undefined ? {} : { ttlMs: t }),
  };
};

export interface CheckedExport {
  readonly head: ExportHead;
  readonly records: number;
  /** Names this very file: an import that was cut goes on with it and with no other. */
  readonly digest: string;
}

export interface ExportText {
  /** For people. */
  readonly file: string;
  readonly lines: AsyncIterable<string>;
}

/** Reads all of it and compares it with its last line; only what is taken is kept. E1 */
export const checkExport = async (
  { file, lines }: ExportText,
  takeRecord: (record: PlacedRecord) => void = () => undefined,
): Promise<CheckedExport> => {
  const damaged = damagedFile(file);
  const hash = createHash("sha256");
  let records = 0;
  let head: Record<string, unknown> | undefined;
  let last: string | undefined;
  let nth = 0;
  const take = (text: string): void => {
    nth += 1;
    hash.update(`${text}\n`);
    const content = parsed(text, nth, damaged);
    if (head === undefined) {
      refuseNewer(content, damaged);
      head = content;
      return;
    }
    takeRecord(recordOf(content, nth, damaged));
    records += 1;
  };
  for await (const text of lines) {
    if (last !== undefined) take(last);
    last = text;
  }
  const digest = hash.digest("hex");
  const end = parsed(last ?? "", nth + 1, damaged);
  if (head === undefined || end["sha256"] !== digest || end["records"] !== records)
    throw damaged("its last line, with the number of records and their checksum, does not fit what stands before");
  return { head: head as unknown as ExportHead, records, digest };
};

export interface ReadExport extends Omit<CheckedExport, "records"> {
  readonly records: readonly PlacedRecord[];
}

/** The whole of it is read and compared before anything of it is used. */
export const readExport = async (text: ExportText): Promise<ReadExport> => {
  const records: PlacedRecord[] = [];
  const { head, digest } = await checkExport(text, (record) => void records.push(record));
  return { head, records, digest };
};
