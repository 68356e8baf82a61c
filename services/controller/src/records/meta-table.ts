/** A table of one record: what all controllers of a cell share, under a key of its own. */

import type { Shape } from "@holdfast/model/record-shape";
import type { AggregateRef } from "../domain/store-types.ts";
import { changedAllTheTime } from "./commit-rounds.ts";
import { createRecordTable, type RecordTable, type RecordTableDeps } from "./record-table.ts";
import { recordReader } from "./shape/record-reader.ts";

export const metaRef = (key: string): AggregateRef => ({ kind: "meta", key });

export const createMetaTable = <R>(
  deps: RecordTableDeps,
  { shape, what }: { readonly shape: Shape; readonly what: string },
): RecordTable<AggregateRef, R> =>
  createRecordTable<AggregateRef, R>(deps, {
    refOf: (ref) => ref,
    read: recordReader<R>({ shape }),
    encode: (record) => ({ body: JSON.stringify(record), indexes: [], due: [] }),
    busy: () => changedAllTheTime(what),
  });
