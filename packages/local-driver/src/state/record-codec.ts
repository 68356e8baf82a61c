/**
 * A record as it stands in its file: `{"format":1,"sha256":"…","record":{…}}` and a newline, one form only. Reading accepts a text
 * only if writing what was read gives the very same bytes, so no cut, no flipped bit and no stray byte goes unseen.
 */
import { createHash } from "node:crypto";
import { DriverError } from "../domain/driver-error.ts";
import type { DriverRecord } from "../domain/records.ts";
import { type RecordOf, recordReaders } from "./record-readers.ts";
import { isObject } from "./strict-reader.ts";

/** Goes up when an older driver could not make sense of a record any more. */
const recordFormat = 1;

/** A group of some 10,000 snapshots: nothing that is really ours is larger. */
export const maxRecordBytes = 1 << 20;

/** Of a record that cannot be read, as much as is certain of its name: undefined may be any. */
export type Decoded<R extends DriverRecord> =
  | { readonly record: R }
  | { readonly reason: string; readonly name: string | undefined };

export interface SealedRecord<R extends DriverRecord> {
  /** Frozen, and exactly what a restart would read. */
  readonly record: R;
  readonly file: Buffer;
}

/** Nothing gets on disk that could not be read back: what does not fit its reader is a fault of the driver, and is thrown. */
export function sealRecord<K extends DriverRecord["kind"]>(kind: K, record: RecordOf<K>): SealedRecord<RecordOf<K>> {
  const wrong: string[] = [];
  const read = recordReaders[kind](JSON.parse(bodyOf(record)), "record", wrong);
  if (read === undefined)
    throw new DriverError("INTERNAL", `the record of ${kind} ${record.id} was not stored: ${wrong.join("; ")}`);
  const file = encoded(read.value);
  if (file.length > maxRecordBytes)
    throw new DriverError(
      "RESOURCE_EXHAUSTED",
      `the record of ${kind} ${record.id} was not stored: it would have ${file.length} bytes, and ${maxRecordBytes} are allowed`,
    );
  return { record: read.value, file };
}

function encoded(record: DriverRecord): Buffer {
  const body = bodyOf(record);
  return Buffer.from(`{"format":${recordFormat},"sha256":"${sumOf(body)}","record":${body}}\n`);
}

const bodyOf = (record: DriverRecord): string =>
  JSON.stringify(record, (_key, value: unknown) => (typeof value === "bigint" ? value.toString() : value));

export function decodeRecord<K extends DriverRecord["kind"]>(
  file: Buffer,
  expected: { readonly kind: K; readonly id: string },
): Decoded<RecordOf<K>> {
  const broken = (reason: string, name?: string) => ({ reason, name });
  if (file.length === 0) return broken("it is empty");
  if (file.length > maxRecordBytes) return broken(`it has more than ${maxRecordBytes} bytes`);
  const envelope = parseJson(file);
  if (envelope === undefined) return broken("it is cut off, or was never a record: it is no JSON");
  if (!isObject(envelope)) return broken("it is no record: its JSON is no object");
  const { format, sha256, record } = envelope;
  const body = JSON.stringify(record ?? null);
  // From here on what it says of itself can be believed, whatever else is wrong with it.
  const intact = sha256 === sumOf(body);
  const name = intact && isObject(record) && typeof record["name"] === "string" ? record["name"] : undefined;
  if (format !== recordFormat)
    return broken(
      `its format is ${JSON.stringify(format) ?? "missing"}, and this driver knows ${recordFormat}: a newer driver wrote it, or it was never a record`,
      name,
    );
  if (!intact)
    return broken("its checksum does not fit its contents: they were changed by something else than the driver");
  const wrong: string[] = [];
  const read = recordReaders[expected.kind](record, "record", wrong);
  if (read === undefined) return broken(wrong.join("; "), name);
  if (read.value.id !== expected.id)
    return broken(`it is the record of ${read.value.id}, and its directory is named ${expected.id}`, name);
  if (!file.equals(encoded(read.value)))
    return broken("it was changed by something else than the driver: its text is not as the driver writes it", name);
  return { record: read.value };
}

const sumOf = (body: string): string => createHash("sha256").update(body).digest("hex");

function parseJson(file: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf8", { fatal: true, ignoreBOM: true }).decode(file));
  } catch {
    return undefined;
  }
}
