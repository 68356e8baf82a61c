/**
 * The journal's bytes. One line a frame: `<crc32, 8 hex> <payload>\n`, the payload JSON without a line break. The first
 * payload is the header; every other one is `[sequence number, [record, …]]`.
 *
 * A file is begun by writing and syncing it whole under another name, so that its header can never be torn. A frame is
 * written by one write and synced before the next one is begun, so that at most the last frame can be torn by a crash.
 * Torn means cut short, or with stretches that were never written (zeros). Everything else that does not check is damage:
 * the journal says so and is never taken for a shorter one.
 */
import { crc32 } from "node:zlib";

export const journalFormat = 1;

/** What to do with a journal of a newer release; in `check` and at the start. */
export const wayBackFromNewer =
  "run the release that wrote it, or a newer one; the way back to this one: with that release drain the node until nothing is claimed there, then move the journal away";

export interface JournalHeader {
  readonly format: number;
  /** Random; another one means that the agent's memory was lost. */
  readonly uid: string;
  /** The machine it was begun on: a copied state directory is noticed. */
  readonly machine: string;
}

export interface ReadJournal {
  readonly header: JournalHeader;
  readonly records: readonly unknown[];
  /** Sequence number of the last frame. */
  readonly sequence: number;
  /** Bytes that hold complete frames; what follows is a torn tail. */
  readonly goodBytes: number;
  /** Set when the last good line lacks only its line break. */
  readonly missingBreak: boolean;
}

export type JournalReading =
  | { readonly kind: "good"; readonly journal: ReadJournal }
  | { readonly kind: "newer"; readonly format: number }
  /** `journal`: what could be read before the damage, when even that is something. */
  | { readonly kind: "damaged"; readonly at: number; readonly why: string; readonly journal: ReadJournal | undefined };

export function encodeHeader(header: JournalHeader): Buffer {
  return encodeLine(JSON.stringify({ holdfast: "agent-journal", ...header }));
}

export function encodeFrame(sequence: number, records: readonly unknown[]): Buffer {
  return encodeLine(JSON.stringify([sequence, records]));
}

/** Where the payload begins: behind the checksum and a space. */
const prefixBytes = 9;

function encodeLine(payload: string): Buffer {
  const line = Buffer.allocUnsafe(prefixBytes + Buffer.byteLength(payload, "utf8") + 1);
  line.write(payload, prefixBytes, "utf8");
  line[line.length - 1] = lineBreak;
  line.write(`${checksum(line.subarray(prefixBytes, -1))} `, 0, "latin1");
  return line;
}

const checksum = (body: Buffer): string => crc32(body).toString(16).padStart(8, "0");

const lineBreak = 0x0a;

export function readJournal(bytes: Buffer): JournalReading {
  let header: JournalHeader | undefined;
  const records: unknown[] = [];
  let sequence = 0;
  let at = 0;
  let missingBreak = false;
  const soFar = (known: JournalHeader): ReadJournal => ({
    header: known,
    records,
    sequence,
    goodBytes: at,
    missingBreak,
  });
  const damaged = (why: string): JournalReading => ({
    kind: "damaged",
    at,
    why,
    journal: header === undefined ? undefined : soFar(header),
  });

  while (at < bytes.length) {
    const end = bytes.indexOf(lineBreak, at);
    const whole = end >= 0;
    const line = bytes.subarray(at, whole ? end : bytes.length);
    // The line break itself may be what was damaged: then the line checks without its last byte.
    const payload = payloadOf(line) ?? (whole ? undefined : payloadOf(line.subarray(0, -1)));
    if (payload === undefined) {
      if (header !== undefined && isTorn(line, whole, end === bytes.length - 1)) break;
      return damaged("a checksum does not match");
    }
    if (header === undefined) {
      header = asHeader(payload);
      if (header === undefined) return damaged("the first line is no header");
      if (header.format > journalFormat) return { kind: "newer", format: header.format };
    } else {
      const frame = asFrame(payload);
      if (frame?.sequence !== sequence + 1) return damaged(`frame ${sequence + 1} is missing`);
      sequence = frame.sequence;
      for (const record of frame.records) records.push(record);
    }
    at = whole ? end + 1 : bytes.length;
    missingBreak = !whole;
  }
  return header === undefined ? damaged("there is no header") : { kind: "good", journal: soFar(header) };
}

function payloadOf(line: Buffer): Buffer | undefined {
  if (line.length <= prefixBytes || line[prefixBytes - 1] !== 0x20) return undefined;
  const body = line.subarray(prefixBytes);
  return line.toString("latin1", 0, 8) === checksum(body) ? body : undefined;
}

/** Bytes of a frame are never zero; so many in a row are a stretch that the disk never got. */
const unwritten = Buffer.alloc(8);

/** Is this what a crash leaves of the last write? */
function isTorn(line: Buffer, whole: boolean, last: boolean): boolean {
  return !whole || (last && line.includes(unwritten));
}

function asHeader(payload: Buffer): JournalHeader | undefined {
  const value = parsed(payload);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const { holdfast, format, uid, machine } = value as Record<string, unknown>;
  if (holdfast !== "agent-journal" || typeof format !== "number" || !(format >= 1)) return undefined;
  // A newer format may have another header; its number is all that has to be understood.
  if (format > journalFormat) return { format, uid: "", machine: "" };
  if (format !== journalFormat || typeof uid !== "string" || typeof machine !== "string") return undefined;
  return uid === "" ? undefined : { format, uid, machine };
}

function asFrame(payload: Buffer): { sequence: number; records: readonly unknown[] } | undefined {
  const value = parsed(payload);
  if (!Array.isArray(value) || value.length !== 2) return undefined;
  const [sequence, records] = value as [unknown, unknown];
  if (typeof sequence !== "number" || !Number.isSafeInteger(sequence) || !Array.isArray(records)) return undefined;
  return { sequence, records };
}

function parsed(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString("utf8"));
  } catch {
    return undefined;
  }
}
