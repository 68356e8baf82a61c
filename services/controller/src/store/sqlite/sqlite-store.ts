/**
 * The store of a single controller: one file on one disk.
 *
 * S1 A commit is one transaction: every write or none. S2 A repeated opId answers with the first result.
 * S3 A revision of a key never comes twice, also over a removal, for a day. S4 Nobody else can have the file open: the events since
 * the opening are own, but for those before a commit of which this process was not told how it ended. S5 Each commit has a higher number
 * than the one before, also in a file that was made, or vetted, in place of one that is lost.
 */

import type { Vetting } from "@holdfast/model/vetting";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { readableFormats, reads, type StoreFormats } from "../../domain/store-format.ts";
import type {
  AggregateKind,
  AggregateRef,
  DueEntry,
  ListPage,
  ListQuery,
  StoredRecord,
} from "../../domain/store-types.ts";
import type { Store } from "../../ports.ts";
import { checkCommit } from "../check-commit.ts";
import { eventToken } from "../event-token.ts";
import type { ExportSource } from "../export-source.ts";
import { halfImported, type ImportMark, importingSchema } from "../import-mark.ts";
import type { StateFile } from "../state-file.ts";
import { metaNumber, storeUnvetted } from "../store-errors.ts";
import { unreadableFormat } from "../store-unfit-error.ts";
import { carriersOf, createSqliteCommit, headOf, raiseNumber } from "./sqlite-commit.ts";
import { damageOf, type FoundColumns, soundColumns } from "./sqlite-damage.ts";
import { openSqliteDatabase, type SqliteDatabase } from "./sqlite-database.ts";
import { watchSqlite } from "./sqlite-events.ts";
import { sqliteExportSource } from "./sqlite-export-source.ts";
import { establishLineage } from "./sqlite-lineage.ts";

export interface SqliteStoreOptions {
  /** A file, or `:memory:` for tests. */
  readonly file: string;
  readonly now: () => number;
  readonly uuid: () => string;
  /** Where the mark of the file is remembered; without it every file is taken for the own one. */
  readonly marks?: StateFile;
  readonly maxEvents?: number;
  /** What a file without an identity becomes: that of a backup. */
  readonly adopt?: { readonly clusterUid: string; readonly gen: number };
  /** What is read here; a file without an identity begins with the newest. */
  readonly formats?: StoreFormats;
}

export interface SqliteStore extends Store {
  readonly kind: "sqlite";
  /** False: this is not the file that was left here, and nothing is granted from it before it is vetted. */
  readonly accepted: boolean;
  readonly importMark: ImportMark;
  /** For a backup while it is in use. */
  exportSource(): Promise<ExportSource>;
}

interface RecordRow extends FoundColumns {
  readonly kind: AggregateKind;
  readonly key: string;
}

const live = "r.body IS NOT NULL AND (r.expires IS NULL OR r.expires > ?)";
const recordOf = (row: RecordRow): StoredRecord => {
  const { kind, key, rev, body } = row;
  const damage = damageOf(row);
  return { ref: { kind, key }, rev: rev ?? 0, body: body ?? "", ...(damage === undefined ? {} : { damage }) };
};

/** What is found in the file, or made in it; closes it again if it cannot be used. */
const prepared = (db: SqliteDatabase, { now, marks, uuid, adopt, formats = readableFormats }: SqliteStoreOptions) => {
  try {
    const schema = metaNumber(db.file, "schema", db.meta("schema") ?? String(formats.newest));
    metaNumber(db.file, "gen", db.meta("gen") ?? "1");
    const importing = schema === importingSchema;
    if (importing && adopt === undefined) throw halfImported(db.file);
    if (!importing && !reads(formats, schema)) throw unreadableFormat(db.file, schema, formats);
    const lineage = establishLineage(db, marks, uuid);
    const known = db.meta("clusterUid");
    const clusterUid = known ?? adopt?.clusterUid ?? uuid();
    db.transaction(() => {
      db.setMeta("clusterUid", clusterUid);
      db.setMeta("schema", String(known === undefined && adopt !== undefined ? importingSchema : schema));
      db.setMeta("gen", db.meta("gen") ?? String(adopt?.gen ?? 1));
      if (known === undefined) raiseNumber(db, now());
    });
    return { ...lineage, clusterUid, schema };
  } catch (error) {
    db.close();
    throw error;
  }
};

export const createSqliteStore = (options: SqliteStoreOptions): SqliteStore => {
  const { file, now, maxEvents = 100_000 } = options;
  const db = openSqliteDatabase(file);
  const { runId, life, accepted, clusterUid, schema } = prepared(db, options);
  let format = schema;
  const apply = createSqliteCommit({ db, runId, life, now, maxEvents });
  const closing = new AbortController();
  const changed = createNotifier();
  /** The events behind it are own; Infinity: how the last commit ended is not known. S4 */
  let ownAfter = headOf(db);

  const get = ({ kind, key }: AggregateRef): StoredRecord | undefined => {
    const row = db.one<RecordRow>(
      `SELECT r.kind, r.key, ${soundColumns} FROM records r WHERE r.kind = ? AND r.key = ? AND ${live}`,
      kind,
      key,
      now(),
    );
    return row === undefined ? undefined : recordOf(row);
  };

  const vettingOf = (): Vetting => ({
    gen: metaNumber(file, "gen", db.meta("gen") ?? ""),
    uid: db.meta("vettingUid") ?? "",
  });

  return {
    kind: "sqlite",
    accepted,
    importMark: {
      begun: async () => (Number(db.meta("schema")) === importingSchema ? (db.meta("importing") ?? "") : undefined),
      begin: async (digest) =>
        db.transaction(() => {
          db.setMeta("schema", String(importingSchema));
          db.setMeta("importing", digest);
        }),
      finish: async (found) => {
        db.transaction(() => {
          db.setMeta("schema", String(found));
          db.setMeta("importing", "");
        });
        format = found;
      },
    },
    exportSource: async () => sqliteExportSource(db, now),
    get: async (ref) => get(ref),
    getMany: async (refs) => refs.map(get),
    async list({ index, value, after = "", limit }: ListQuery): Promise<ListPage> {
      const rows = db.all<RecordRow>(
        `SELECT r.kind, r.key, ${soundColumns} FROM entries e JOIN records r ON r.kind = e.kind AND r.key = e.key
         WHERE e.name = ? AND e.value = ? AND e.key > ? AND ${live} ORDER BY e.key LIMIT ?`,
        index,
        value,
        after,
        now(),
        limit,
      );
      const records = rows.map(recordOf);
      const last = rows.at(-1);
      return rows.length < limit || last === undefined ? { records } : { records, next: last.key };
    },
    count: async (entries) => entries.map((entry) => carriersOf(db, entry)),
    async commit(commit) {
      checkCommit(commit);
      if (ownAfter === Number.POSITIVE_INFINITY) ownAfter = headOf(db);
      try {
        const result = db.transaction(() => apply(commit)); // S1
        if (result.ok) format = Math.max(format, commit.raisesFormat ?? format);
        if (result.ok && commit.events.length > 0) changed.notify();
        return result;
      } catch (error) {
        if (isHoldfastError(error) && error.reason === "STORE_OUTCOME_UNKNOWN") ownAfter = Number.POSITIVE_INFINITY;
        throw error;
      }
    },
    async due(queue, until, limit): Promise<readonly DueEntry[]> {
      const rows = db.all<{ kind: AggregateKind; key: string; at: number }>(
        "SELECT kind, key, at FROM due WHERE queue = ? AND at <= ? ORDER BY at, kind, key LIMIT ?",
        queue,
        until,
        limit,
      );
      return rows.map(({ kind, key, at }) => ({ queue, ref: { kind, key }, at }));
    },
    nextDue: async (queue) =>
      db.one<{ at: number | null }>("SELECT min(at) AS at FROM due WHERE queue = ?", queue)?.at ?? undefined,
    head: async () => eventToken(life, headOf(db)),
    watch(after, signal) {
      const isOwn = (seq: number): boolean => seq > ownAfter;
      return watchSqlite({ db, life, isOwn, changed, after, signal: AbortSignal.any([signal, closing.signal]) });
    },
    identity: async () => ({
      clusterUid,
      format,
      vetting: vettingOf(),
      begun: db.meta("begunFor") === runId,
      runId,
      vettedRunId: db.meta("vettedRunId") ?? "",
      // Another file, or another process: what was seen of the one before is in no memory.
      lastVetted: "",
      keptAll: false,
    }),
    format: () => format,
    async beginVetting(wanted, { gen, uid }) {
      if (wanted !== runId) throw storeUnvetted(file, `vetted was ${wanted}, but it is ${runId}`);
      if (gen <= vettingOf().gen) return;
      db.transaction(() => {
        db.setMeta("vettedRunId", "");
        db.setMeta("gen", String(gen));
        db.setMeta("vettingUid", uid);
        db.setMeta("begunFor", runId);
      });
    },
    async markVetted(vetted, { gen, uid }) {
      if (vetted !== runId) throw storeUnvetted(file, `vetted was ${vetted}, but it is ${runId}`);
      const known = vettingOf();
      if (gen !== known.gen || uid !== known.uid || db.meta("begunFor") !== runId)
        throw storeUnvetted(file, `it has generation ${known.gen}, and was vetted for ${gen}`);
      db.transaction(() => {
        db.setMeta("vettedRunId", runId);
        raiseNumber(db, now());
      });
    },
    // The file is locked by this process: nothing can change behind its back.
    onSuspect: () => () => undefined,
    async close() {
      if (closing.signal.aborted) return;
      closing.abort(new DOMException("the store is closed", "AbortError"));
      db.close();
    },
  };
};
