/**
 * The one way from a stored text to a record, for every kind.
 *
 * D1 A record that cannot be read is named (RECORD_DAMAGED), and is never taken for one that is absent. D2 What is read has the
 * fields that decisions are made from, and stands under its own key. D3 Of several records each is judged by itself.
 */

import type { Shape } from "@holdfast/model/record-shape";
import type { StoredRecord } from "../../domain/store-types.ts";
import { recordDamaged } from "../../store/store-errors.ts";

export type RecordReader<T> = (stored: StoredRecord) => T;

export interface RecordFormat<T> {
  readonly shape: Shape;
  /** The key under which the record has to stand; undefined = it may stand under any. */
  readonly keyOf?: (record: T) => string;
  /** From the text; JSON when absent. */
  readonly parse?: (body: string) => T;
}

const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export const recordReader = <T>({ shape, keyOf, parse = JSON.parse }: RecordFormat<T>): RecordReader<T> => {
  const parsed = ({ ref, body }: StoredRecord): T => {
    try {
      return parse(body);
    } catch (cause) {
      throw recordDamaged(ref, `its text cannot be read (${wordsOf(cause)})`, cause); // D1
    }
  };
  return (stored) => {
    const { ref, damage } = stored;
    if (damage !== undefined) throw recordDamaged(ref, damage); // D1
    const record = parsed(stored);
    const fault = shape(record, "");
    if (fault !== undefined) throw recordDamaged(ref, fault); // D2
    const key = keyOf?.(record) ?? ref.key;
    if (key !== ref.key) throw recordDamaged(ref, `it is the record of ${key}`); // D2
    return record;
  };
};
