/** Which records were found damaged, and not mended since: for the log, /metrics and the list of what is stuck. Bounded. */
import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { AggregateKind, AggregateRef, StoredRecord } from "../domain/store-types.ts";
import type { RecordReader } from "./shape/record-reader.ts";

export interface DamagedRecord {
  readonly ref: AggregateRef;
  readonly error: HoldfastError;
  /** Wall clock of this controller. */
  readonly since: number;
}

export interface DamagedRecords {
  /** The record; a damaged one is noted and thrown. */
  read<T>(stored: StoredRecord, reader: RecordReader<T>): T;
  /** The sound ones; the damaged ones are noted, and thrown only where the answer has to be `whole`. */
  readEach<T>(stored: readonly StoredRecord[], reader: RecordReader<T>, whole?: boolean): readonly T[];
  /** undefined: it was not found damaged. */
  of(ref: AggregateRef): HoldfastError | undefined;
  /** In the order in which they were found; without those that were read as sound since. */
  list(): readonly DamagedRecord[];
}

export interface DamagedRecordsDeps {
  readonly log: Pick<Logger, "error">;
  readonly now: () => number;
}

export const isDamage = (error: unknown): error is HoldfastError =>
  isHoldfastError(error) && error.reason === "RECORD_DAMAGED";

const most = 1_000;

export const createDamagedRecords = (deps?: DamagedRecordsDeps): DamagedRecords => {
  const found = new Map<string, DamagedRecord>();

  const nameOf = ({ kind, key }: AggregateRef): string => `${kind} ${key}`;

  const note = (ref: AggregateRef, error: HoldfastError): void => {
    const { message } = error;
    if (found.get(nameOf(ref))?.error.message === message || found.size >= most) return;
    found.set(nameOf(ref), { ref, error, since: deps?.now() ?? 0 });
    deps?.log.error("a record in the store is damaged", { kind: ref.kind, key: ref.key, reason: message });
  };

  const read: DamagedRecords["read"] = (stored, reader) => {
    try {
      const sound = reader(stored);
      if (found.size > 0) found.delete(nameOf(stored.ref));
      return sound;
    } catch (error) {
      if (isDamage(error)) note(stored.ref, error);
      throw error;
    }
  };

  return {
    read,
    readEach: (stored, reader, whole = false) =>
      stored.flatMap((one) => {
        try {
          return [read(one, reader)];
        } catch (error) {
          if (whole || !isDamage(error)) throw error;
          return [];
        }
      }),
    of: (ref) => found.get(nameOf(ref))?.error,
    list: () => [...found.values()],
  };
};

/** How many of each kind; every kind that has none is left out. */
export const damagedByKind = (damaged: readonly DamagedRecord[]): ReadonlyMap<AggregateKind, number> => {
  const counts = new Map<AggregateKind, number>();
  for (const { ref } of damaged) counts.set(ref.kind, (counts.get(ref.kind) ?? 0) + 1);
  return counts;
};
