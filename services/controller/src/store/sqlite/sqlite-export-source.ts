import { existsSync } from "node:fs";
import { readableFormats, reads } from "../../domain/store-format.ts";
import type { AggregateKind, IndexEntry, PlacedRecord } from "../../domain/store-types.ts";
import type { ExportIdentity, ExportSource } from "../export-source.ts";
import { halfImported, importingSchema } from "../import-mark.ts";
import { metaNumber } from "../store-errors.ts";
import { StoreUnfitError, unreadableFormat } from "../store-unfit-error.ts";
import { damageOf, type FoundColumns, soundColumns } from "./sqlite-damage.ts";
import { openSqliteDatabase, type SqliteDatabase } from "./sqlite-database.ts";

interface RecordRow extends FoundColumns {
  readonly kind: AggregateKind;
  readonly key: string;
  readonly expires: number | null;
}

/** Of one step; between two of them the process does its other work. */
const pageSize = 200;

const pageAfter = `SELECT kind, key, ${soundColumns} FROM records r
  WHERE body IS NOT NULL AND (expires IS NULL OR expires > ?) AND (kind, key) > (?, ?) ORDER BY kind, key LIMIT ${pageSize}`;

const placed = (db: SqliteDatabase, row: RecordRow, at: number): PlacedRecord => {
  const { kind, key, body, expires } = row;
  const damage = damageOf(row);
  return {
    ref: { kind, key },
    body: body ?? "",
    ...(damage === undefined ? {} : { damage }),
    indexes: db.all<IndexEntry>(
      'SELECT name AS "index", value FROM entries WHERE kind = ? AND key = ? ORDER BY name, value',
      kind,
      key,
    ),
    due: db.all<{ queue: string; at: number }>("SELECT queue, at FROM due WHERE kind = ? AND key = ?", kind, key),
    ...(expires === null ? {} : { ttlMs: expires - at }),
  };
};

async function* recordsOf(db: SqliteDatabase, at: number): AsyncGenerator<PlacedRecord> {
  let last: Pick<RecordRow, "kind" | "key"> | undefined;
  do {
    const rows = db.all<RecordRow>(pageAfter, at, last?.kind ?? "", last?.key ?? "");
    for (const row of rows) yield placed(db, row, at);
    last = rows.length < pageSize ? undefined : rows.at(-1);
    if (last !== undefined) await new Promise(setImmediate);
  } while (last !== undefined);
}

/** All records of a file that this process has open. */
export const sqliteExportSource = (db: SqliteDatabase, now: () => number): ExportSource => {
  const identity = (): ExportIdentity => ({
    clusterUid: db.meta("clusterUid") ?? "",
    schema: Number(db.meta("schema") ?? readableFormats.oldest),
    gen: metaNumber(db.file, "gen", db.meta("gen") ?? "0"),
  });
  return {
    identity: identity(),
    records: () => recordsOf(db, now()),
    identityNow: async () => identity(),
    close: async () => undefined,
  };
};

/** The same of a file that no controller has open. */
export const openSqliteExportSource = (file: string, now: () => number): ExportSource => {
  // Opened, it would be made.
  if (!existsSync(file))
    throw new StoreUnfitError("CONFIG_INVALID", file, [
      { field: "file", description: "does not exist: correct its path" },
    ]);
  const db = openSqliteDatabase(file);
  try {
    const schema = Number(db.meta("schema") ?? readableFormats.oldest);
    if (schema === importingSchema) throw halfImported(file);
    if (!reads(readableFormats, schema)) throw unreadableFormat(file, schema, readableFormats);
    return { ...sqliteExportSource(db, now), close: async () => db.close() };
  } catch (error) {
    db.close();
    throw error;
  }
};
