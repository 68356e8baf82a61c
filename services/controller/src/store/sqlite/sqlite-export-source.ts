import { existsSync } from "node:fs";
import { readableFormats, reads } from "../../domain/store-format.ts";
import type { AggregateKind } from "../../domain/store-types.ts";
import type { ExportSource } from "../export-source.ts";
import { halfImported, importingSchema } from "../import-mark.ts";
import { metaNumber } from "../store-errors.ts";
import { StoreUnfitError, unreadableFormat } from "../store-unfit-error.ts";
import { damageOf, type FoundColumns, soundColumns } from "./sqlite-damage.ts";
import { openSqliteDatabase } from "./sqlite-database.ts";

interface RecordRow extends FoundColumns {
  readonly kind: AggregateKind;
  readonly key: string;
  readonly expires: number | null;
}

/** All records of a file that no controller has open. */
export const openSqliteExportSource = (file: string, now: () => number): ExportSource => {
  // Opened, it would be made.
  if (!existsSync(file))
    throw new StoreUnfitError("CONFIG_INVALID", file, [
      { field: "file", description: "does not exist: correct its path" },
    ]);
  const db = openSqliteDatabase(file);
  const schema = Number(db.meta("schema") ?? readableFormats.oldest);
  if (!reads(readableFormats, schema)) {
    db.close();
    throw schema === importingSchema ? halfImported(file) : unreadableFormat(file, schema, readableFormats);
  }
  return {
    identity: {
      clusterUid: db.meta("clusterUid") ?? "",
      schema,
      gen: metaNumber(file, "gen", db.meta("gen") ?? "0"),
    },
    async *records() {
      const at = now();
      const rows = db.all<RecordRow>(
        `SELECT kind, key, ${soundColumns} FROM records r WHERE body IS NOT NULL AND (expires IS NULL OR expires > ?) ORDER BY kind, key`,
        at,
      );
      for (const row of rows) {
        const { kind, key, body, expires } = row;
        const damage = damageOf(row);
        yield {
          ref: { kind, key },
          body: body ?? "",
          ...(damage === undefined ? {} : { damage }),
          indexes: db.all<{ index: string; value: string }>(
            'SELECT name AS "index", value FROM entries WHERE kind = ? AND key = ? ORDER BY name, value',
            kind,
            key,
          ),
          due: db.all<{ queue: string; at: number }>("SELECT queue, at FROM due WHERE kind = ? AND key = ?", kind, key),
          ...(expires === null ? {} : { ttlMs: expires - at }),
        };
      }
    },
    close: async () => db.close(),
  };
};
