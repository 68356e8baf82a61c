import {
  type AggregateRef,
  aloneEntries,
  type Commit,
  type CommitResult,
  type IndexEntry,
  type RecordWrite,
} from "../../domain/store-types.ts";
import { eventToken } from "../event-token.ts";
import { metaNumber, recordDamaged, storeOutcomeUnknown, storeUnvetted } from "../store-errors.ts";
import { damageOf, type FoundColumns, soundColumns } from "./sqlite-damage.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

export interface SqliteCommitOptions {
  readonly db: SqliteDatabase;
  readonly runId: string;
  readonly life: string;
  readonly now: () => number;
  readonly maxEvents: number;
}

const operationsKept = 10_000;
const tombstoneMs = 24 * 3_600_000;
const sweptPerCommit = 8;

type Stored = Extract<CommitResult, { readonly ok: true }>;

interface Operation {
  readonly seq: number;
  readonly result: string;
}

interface Row extends FoundColumns {
  readonly expires: number | null;
}

export const headOf = (db: SqliteDatabase): number =>
  db.one<{ seq: number }>("SELECT seq FROM sqlite_sequence WHERE name = 'events'")?.seq ?? 0;

/** More numbers than a store gives in a millisecond. */
const numbersPerMs = 1_024;

/**
 * S5: the number of the newest commit is raised to the clock, which is read for nothing else: a file that lost its newest commits gives
 * their numbers to no others.
 */
export const raiseNumber = (db: SqliteDatabase, now: number): void => {
  const newest = now * numbersPerMs;
  db.run(
    "INSERT INTO sqlite_sequence (name, seq) SELECT 'operations', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'operations')",
  );
  db.run("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'operations'", newest);
};

/** How many records carry the entry. */
export const carriersOf = (db: SqliteDatabase, { index, value }: IndexEntry): number =>
  db.one<{ found: number }>("SELECT count(*) AS found FROM entries WHERE name = ? AND value = ?", index, value)
    ?.found ?? 0;

/** To be run inside a transaction: compares everything, then writes everything. */
export const createSqliteCommit = (options: SqliteCommitOptions): ((commit: Commit) => CommitResult) => {
  const { db, runId, life, now, maxEvents } = options;

  const rowOf = (ref: AggregateRef): Row | undefined => {
    const row = db.one<Row>(`SELECT ${soundColumns} FROM records r WHERE kind = ? AND key = ?`, ref.kind, ref.key);
    const damage = row === undefined ? undefined : damageOf(row);
    if (damage !== undefined) throw recordDamaged(ref, damage);
    return row;
  };

  const leavePlaces = ({ kind, key }: AggregateRef): void => {
    db.run("DELETE FROM entries WHERE kind = ? AND key = ?", kind, key);
    db.run("DELETE FROM due WHERE kind = ? AND key = ?", kind, key);
  };

  /** A bounded share of what has ended: records past their time become tombstones, tombstones past their day go. */
  const sweep = (at: number): void => {
    const ended = db.all<Row & AggregateRef>(
      `SELECT kind, key, ${soundColumns} FROM records r WHERE expires <= ? AND typeof(expires) = 'integer' ORDER BY expires LIMIT ?`,
      at,
      sweptPerCommit,
    );
    for (const { kind, key, body } of ended) {
      if (body === null) {
        db.run("DELETE FROM records WHERE kind = ? AND key = ?", kind, key);
        continue;
      }
      leavePlaces({ kind, key });
      db.run("UPDATE records SET body = NULL, expires = ? WHERE kind = ? AND key = ?", at + tombstoneMs, kind, key);
    }
  };

  const write = ({ ref, body, ttlMs, indexes, due }: RecordWrite, at: number): number => {
    const rev = (rowOf(ref)?.rev ?? 0) + 1; // S3
    const life = body === null ? tombstoneMs : ttlMs;
    const expires = life === undefined ? null : at + life;
    db.run("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)", ref.kind, ref.key, rev, body, expires);
    leavePlaces(ref);
    if (body === null) return rev;
    for (const { index, value } of indexes)
      db.run("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)", index, value, ref.key, ref.kind);
    for (const { queue, at: time } of due)
      db.run("INSERT INTO due VALUES (?, ?, ?, ?)", queue, ref.kind, ref.key, time);
    return rev;
  };

  const crowded = ({ index, value }: IndexEntry, writes: readonly RecordWrite[]): boolean =>
    db
      .all<AggregateRef>(
        "SELECT kind, key FROM entries WHERE name = ? AND value = ? LIMIT ?",
        index,
        value,
        writes.length + 1,
      )
      .some(({ kind, key }) => !writes.some(({ ref }) => ref.kind === kind && ref.key === key));

  const carries = ({ kind, key }: AggregateRef, { index, value }: IndexEntry): boolean =>
    db.one("SELECT 1 FROM entries WHERE name = ? AND value = ? AND key = ? AND kind = ?", index, value, key, kind) !==
    undefined;

  const tooMany = (
    { entries, count }: NonNullable<Commit["atMost"]>[number],
    writes: readonly RecordWrite[],
  ): boolean => {
    let [carriers, added] = [0, 0];
    for (const entry of entries) {
      for (const { ref, body, indexes } of writes) {
        const after = indexes.some(({ index, value }) => index === entry.index && value === entry.value);
        added += Number(body !== null && after) - Number(carries(ref, entry));
      }
      carriers += carriersOf(db, entry);
    }
    return added > 0 && carriers + added > count;
  };

  const numbered = (result: Omit<Stored, "order">, sequence: number): Stored => ({
    ...result,
    order: { gen: metaNumber(db.file, "gen", db.meta("gen") ?? ""), sequence },
  });

  const resultOf = (opId: string, { seq, result }: Operation): CommitResult => {
    try {
      return numbered(JSON.parse(result) as Stored, seq);
    } catch (cause) {
      throw storeOutcomeUnknown(db.file, opId, "the answer that is kept of it is damaged", cause);
    }
  };

  return (commit) => {
    const known = db.one<Operation>("SELECT seq, result FROM operations WHERE op = ?", commit.opId);
    if (known !== undefined) return resultOf(commit.opId, known); // S2
    if (commit.requiresVetted && db.meta("vettedRunId") !== runId)
      throw storeUnvetted(db.file, "it is not the file that this controller left");
    const at = now();
    const conflicts = [...commit.writes, ...(commit.expects ?? [])].flatMap(({ ref, expectedRev }) => {
      const row = rowOf(ref);
      const there = row !== undefined && row.body !== null && (row.expires === null || row.expires > at);
      const rev = there ? (row.rev ?? 0) : 0;
      return rev === expectedRev ? [] : [{ ref, rev }];
    });
    if (conflicts.length > 0) return { ok: false, conflicts };
    if (aloneEntries(commit).some((entry) => crowded(entry, commit.writes)))
      return { ok: false, conflicts: [], crowded: true };
    const full = (commit.atMost ?? [])
      .filter((bound) => tooMany(bound, commit.writes))
      .flatMap(({ entries }) => entries);
    if (full.length > 0) return { ok: false, conflicts: [], full };

    const revs = commit.writes.map((one) => write(one, at));
    for (const { type, ref, body } of commit.events)
      db.run("INSERT INTO events (type, kind, key, body) VALUES (?, ?, ?, ?)", type, ref.kind, ref.key, body);
    const head = headOf(db);
    if (commit.events.length > 0) db.run("DELETE FROM events WHERE seq <= ?", head - maxEvents);
    if (commit.raisesFormat !== undefined && commit.raisesFormat > Number(db.meta("schema")))
      db.setMeta("schema", String(commit.raisesFormat));
    const result = { ok: true, revs, token: eventToken(life, head) } as const;
    const kept = "INSERT INTO operations (op, result) VALUES (?, ?) RETURNING seq"; // S5
    const sequence = db.one<{ seq: number }>(kept, commit.opId, JSON.stringify(result))?.seq ?? 0;
    db.run("DELETE FROM operations WHERE seq <= ?", sequence - operationsKept);
    sweep(at);
    return numbered(result, sequence);
  };
};
