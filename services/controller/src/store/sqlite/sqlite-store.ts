/**
 * The store of a single controller: one file on one disk.
 *
 * S1 A commit is one transaction: every write or none. S2 A repeated opId answers with the first result.
 * S3 A revision of a key never comes twice, also over a removal. S4 Nothing is answered before it is on disk.
 */
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type {
  AggregateKind,
  AggregateRef,
  Commit,
  CommitResult,
  DueEntry,
  ListPage,
  ListQuery,
  StoredEvent,
  StoredRecord,
  StoreIdentity,
} from "../../domain/store-types.ts";
import type { Store } from "../../ports.ts";
import { checkCommit } from "../check-commit.ts";
import { prepareSchema, schemaVersion } from "./sqlite-schema.ts";

export interface SqliteStoreOptions {
  /** A file, or `:memory:` for tests. */
  readonly file: string;
  readonly now: () => number;
  readonly uuid: () => string;
  /** Must equal the id in the file; undefined = this is the first start, the answer of `lineage` is to be kept. */
  readonly expectedLineage?: string;
  readonly maxEvents?: number;
}

export interface SqliteStore extends Store {
  /** The random id of the file. */
  readonly lineage: string;
}

interface RecordRow {
  readonly kind: AggregateKind;
  readonly key: string;
  readonly rev: number;
  readonly body: string | null;
  readonly expires: number | null;
}

const keptOperations = 10_000;

export const createSqliteStore = (options: SqliteStoreOptions): SqliteStore => {
  const { now, maxEvents = 100_000 } = options;
  const db = new DatabaseSync(options.file);
  prepareSchema(db);
  const statements = new Map<string, ReturnType<DatabaseSync["prepare"]>>();
  const sql = (text: string): ReturnType<DatabaseSync["prepare"]> => {
    const known = statements.get(text);
    if (known !== undefined) return known;
    const made = db.prepare(text);
    statements.set(text, made);
    return made;
  };
  const one = <T>(text: string, ...args: SQLInputValue[]): T | undefined => sql(text).get(...args) as T | undefined;
  const all = <T>(text: string, ...args: SQLInputValue[]): readonly T[] => sql(text).all(...args) as unknown as T[];
  const run = (text: string, ...args: SQLInputValue[]): void => void sql(text).run(...args);

  const meta = (name: string, first: () => string): string => {
    run("INSERT OR IGNORE INTO meta VALUES (?, ?)", name, first());
    return one<{ value: string }>("SELECT value FROM meta WHERE name = ?", name)?.value ?? "";
  };
  const clusterUid = meta("clusterUid", options.uuid);
  const lineage = meta("lineage", options.uuid);
  const schema = Number(meta("schema", () => String(schemaVersion)));
  if (schema > schemaVersion)
    throw new HoldfastError({
      kind: "precondition",
      reason: "STORE_SCHEMA_NEWER",
      message: `the store ${options.file} has schema ${schema}, this version knows ${schemaVersion}: use the version that wrote it, or a newer one`,
      metadata: { store: options.file },
    });
  const replaced = options.expectedLineage !== undefined && options.expectedLineage !== lineage;
  // A file that is the one we left needs no vetting: one process on one disk cannot have lost what it was told is there.
  const runId = replaced ? `replaced-${options.uuid()}` : lineage;
  if (!replaced) run("INSERT OR REPLACE INTO meta VALUES ('vettedRunId', ?)", runId);

  const stopping = new AbortController();
  const wakers = new Set<() => void>();

  const rowOf = (ref: AggregateRef): RecordRow | undefined =>
    one<RecordRow>("SELECT * FROM records WHERE kind = ? AND key = ?", ref.kind, ref.key);
  const alive = (row: RecordRow | undefined): row is RecordRow & { body: string } =>
    row !== undefined && row.body !== null && (row.expires === null || row.expires > now());
  const recordOf = (row: RecordRow & { body: string }): StoredRecord => ({
    ref: { kind: row.kind, key: row.key },
    rev: row.rev,
    body: row.body,
  });

  const forget = (ref: AggregateRef): void => {
    run("DELETE FROM entries WHERE kind = ? AND key = ?", ref.kind, ref.key);
    run("DELETE FROM due WHERE kind = ? AND key = ?", ref.kind, ref.key);
  };
  const pruneExpired = (): void => {
    for (const row of all<RecordRow>(
      "SELECT * FROM records WHERE expires IS NOT NULL AND expires <= ? LIMIT 100",
      now(),
    )) {
      forget(row);
      run("UPDATE records SET body = NULL, expires = NULL WHERE kind = ? AND key = ?", row.kind, row.key);
    }
  };

  const write = (commit: Commit): readonly number[] =>
    commit.writes.map((w) => {
      const rev = (rowOf(w.ref)?.rev ?? 0) + 1;
      run(
        "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)",
        w.ref.kind,
        w.ref.key,
        rev,
        w.body,
        w.ttlMs === undefined ? null : now() + w.ttlMs,
      );
      forget(w.ref);
      if (w.body === null) return rev;
      for (const e of w.indexes)
        run("INSERT INTO entries VALUES (?, ?, ?, ?)", e.index, e.value, w.ref.key, w.ref.kind);
      for (const d of w.due)
        run("INSERT OR REPLACE INTO due VALUES (?, ?, ?, ?)", d.queue, w.ref.kind, w.ref.key, d.at);
      return rev;
    });

  const headNow = (): number => one<{ seq: number }>("SELECT seq FROM sqlite_sequence WHERE name = 'events'")?.seq ?? 0;

  const apply = (commit: Commit): CommitResult => {
    const repeated = one<{ result: string }>("SELECT result FROM operations WHERE op = ?", commit.opId);
    if (repeated !== undefined) return JSON.parse(repeated.result) as CommitResult; // S2
    if (commit.requiresVetted && vettedRunId() !== runId)
      throw new HoldfastError({
        kind: "unavailable",
        reason: "STORE_UNVETTED",
        message: "the store was replaced and is not vetted yet: nothing is granted",
        metadata: { store: options.file },
      });
    const conflicts = commit.writes.flatMap((w) => {
      const row = rowOf(w.ref);
      const rev = alive(row) ? row.rev : 0;
      return rev === w.expectedRev ? [] : [{ ref: w.ref, rev }];
    });
    if (conflicts.length > 0) return { ok: false, conflicts };
    const revs = write(commit);
    for (const e of commit.events)
      run("INSERT INTO events (type, kind, key, body) VALUES (?, ?, ?, ?)", e.type, e.ref.kind, e.ref.key, e.body);
    const head = headNow();
    if (commit.events.length > 0) run("DELETE FROM events WHERE seq <= ?", head - maxEvents);
    const result: CommitResult = { ok: true, revs, token: String(head) };
    run("INSERT INTO operations (op, result) VALUES (?, ?)", commit.opId, JSON.stringify(result));
    run("DELETE FROM operations WHERE seq <= (SELECT max(seq) FROM operations) - ?", keptOperations);
    pruneExpired();
    return result;
  };

  const vettedRunId = (): string =>
    one<{ value: string }>("SELECT value FROM meta WHERE name = 'vettedRunId'")?.value ?? "";

  const transaction = <T>(body: () => T): T => {
    db.exec("BEGIN IMMEDIATE");
    try {
      const result = body();
      db.exec("COMMIT"); // S1, S4
      return result;
    } catch (error) {
      db.exec("ROLLBACK");
      throw error;
    }
  };

  const trimmed = (after: string): HoldfastError =>
    new HoldfastError({
      kind: "out_of_range",
      reason: "EVENTS_TRIMMED",
      message: `events after ${after} are no longer kept: list again and watch from the new token`,
      metadata: { token: after },
    });

  return {
    kind: "sqlite",
    lineage,
    get: async (ref) => {
      const row = rowOf(ref);
      return alive(row) ? recordOf(row) : undefined;
    },
    getMany: async (refs) =>
      refs.map((ref) => {
        const row = rowOf(ref);
        return alive(row) ? recordOf(row) : undefined;
      }),
    list: async (query: ListQuery): Promise<ListPage> => {
      const rows = all<RecordRow>(
        `SELECT r.* FROM entries e JOIN records r ON r.kind = e.kind AND r.key = e.key
         WHERE e.name = ? AND e.value = ? AND e.key > ? ORDER BY e.key LIMIT ?`,
        query.index,
        query.value,
        query.after ?? "",
        query.limit,
      );
      const last = rows.at(-1);
      return {
        records: rows.filter(alive).map(recordOf),
        ...(rows.length === query.limit && last !== undefined ? { next: last.key } : {}),
      };
    },
    commit: async (commit) => {
      checkCommit(commit);
      const result = transaction(() => apply(commit));
      if (result.ok) for (const wake of [...wakers]) wake();
      return result;
    },
    due: async (queue, until, limit): Promise<readonly DueEntry[]> =>
      all<{ kind: AggregateKind; key: string; at: number }>(
        "SELECT kind, key, at FROM due WHERE queue = ? AND at <= ? ORDER BY at, key LIMIT ?",
        queue,
        until,
        limit,
      ).map(({ kind, key, at }) => ({ queue, ref: { kind, key }, at })),
    nextDue: async (queue) =>
      one<{ at: number | null }>("SELECT min(at) AS at FROM due WHERE queue = ?", queue)?.at ?? undefined,
    head: async () => String(headNow()),
    watch: async function* (after, signal): AsyncIterable<StoredEvent> {
      let seq = Number(after);
      if (!Number.isSafeInteger(seq) || seq < 0 || seq > headNow()) throw trimmed(after);
      const ended = AbortSignal.any([signal, stopping.signal]);
      for (;;) {
        ended.throwIfAborted();
        const first = one<{ seq: number | null }>("SELECT min(seq) AS seq FROM events")?.seq ?? headNow() + 1;
        if (first > seq + 1) throw trimmed(String(seq));
        const rows = all<{ seq: number; type: string; kind: AggregateKind; key: string; body: string }>(
          "SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT 500",
          seq,
        );
        for (const row of rows) {
          seq = row.seq;
          yield { token: String(row.seq), type: row.type, ref: { kind: row.kind, key: row.key }, body: row.body };
        }
        if (rows.length === 0 && headNow() === seq) await nextCommit(wakers, ended);
      }
    },
    identity: async (): Promise<StoreIdentity> => ({
      clusterUid,
      schema,
      gen: Number(meta("gen", () => "1")),
      runId,
      vettedRunId: vettedRunId(),
    }),
    markVetted: async (vetted, gen) => {
      transaction(() => {
        run("INSERT OR REPLACE INTO meta VALUES ('vettedRunId', ?)", vetted);
        run("INSERT OR REPLACE INTO meta VALUES ('gen', ?)", String(gen));
      });
    },
    onSuspect: () => () => undefined,
    close: async () => {
      if (stopping.signal.aborted) return;
      stopping.abort(new DOMException("the store is closed", "AbortError"));
      statements.clear();
      db.close();
    },
  };
};

const nextCommit = (wakers: Set<() => void>, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const wake = (): void => {
      wakers.delete(wake);
      signal.removeEventListener("abort", abort);
      resolve();
    };
    const abort = (): void => {
      wakers.delete(wake);
      reject(signal.reason);
    };
    wakers.add(wake);
    signal.addEventListener("abort", abort, { once: true });
  });
