/**
 * One file, opened by one process.
 *
 * D1 What was answered is on disk: WAL with synchronous FULL syncs at each commit. D2 Nobody else can open the file meanwhile. D3 A disk
 * without room leaves no doubt: what did not fit is not written, and everything goes on once there is room.
 */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { StoreUnfitError } from "../store-unfit-error.ts";
import { sqliteSchema } from "./sqlite-schema.ts";

export interface SqliteDatabase {
  readonly file: string;
  one<T>(sql: string, ...args: SQLInputValue[]): T | undefined;
  all<T>(sql: string, ...args: SQLInputValue[]): readonly T[];
  run(sql: string, ...args: SQLInputValue[]): void;
  /** All of it or nothing. What `body` throws goes on; a disk that fails is told as UNAVAILABLE or, at the end, OUTCOME_UNKNOWN. */
  transaction<T>(body: () => T): T;
  /** A line of the table `meta`; undefined = there is none. */
  meta(name: string): string | undefined;
  setMeta(name: string, value: string): void;
  close(): void;
}

/** SQLITE_FULL: no byte more found room. A commit that ends so has not written its mark, and is rolled back. */
const isFull = (error: unknown): boolean => error instanceof Error && "errcode" in error && error.errcode === 13;

const failed = (file: string, reason: "STORE_UNAVAILABLE" | "STORE_OUTCOME_UNKNOWN", cause: unknown): HoldfastError => {
  const why = cause instanceof Error ? cause.message : String(cause);
  const next = reason === "STORE_UNAVAILABLE" ? "nothing was written" : "read before deciding anew";
  const cure = isFull(cause) ? "free some space on its disk, and it goes on by itself" : "look at its disk";
  return new HoldfastError({
    kind: "unavailable",
    reason,
    message: `the store ${file} failed: ${why}; ${next}, and ${cure}`,
    metadata: { store: file },
    cause,
  });
};

const isSqliteError = (error: unknown): boolean =>
  error instanceof Error && "code" in error && error.code === "ERR_SQLITE_ERROR";

const open = (file: string): DatabaseSync => {
  try {
    if (path.isAbsolute(file)) mkdirSync(path.dirname(file), { recursive: true });
    const db = new DatabaseSync(file);
    // D2: with this mode the first use takes the lock and keeps it. Set first, it also spares WAL its shared memory.
    db.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"); // D1
    db.exec(`BEGIN IMMEDIATE; ${sqliteSchema} COMMIT;`);
    return db;
  } catch (error) {
    if (isFull(error)) throw failed(file, "STORE_UNAVAILABLE", error);
    const why = error instanceof Error ? error.message : String(error);
    const cure = /locked|busy/i.test(why)
      ? "another process has it open: stop that one"
      : "look at its path and its disk";
    throw new StoreUnfitError("CONFIG_INVALID", file, [
      { field: "file", description: `cannot be opened (${why}): ${cure}` },
    ]);
  }
};

export const openSqliteDatabase = (file: string): SqliteDatabase => {
  const db = open(file);
  const statements = new Map<string, StatementSync>();
  const prepared = (sql: string): StatementSync => {
    const known = statements.get(sql) ?? db.prepare(sql);
    statements.set(sql, known);
    return known;
  };
  const guarded = <T>(use: () => T): T => {
    try {
      return use();
    } catch (error) {
      throw isSqliteError(error) ? failed(file, "STORE_UNAVAILABLE", error) : error;
    }
  };
  const one = <T>(sql: string, ...args: SQLInputValue[]): T | undefined =>
    guarded(() => prepared(sql).get(...args)) as T | undefined;
  const run = (sql: string, ...args: SQLInputValue[]): void => {
    guarded(() => prepared(sql).run(...args));
  };
  /** What its caller throws says more than a rollback that fails as well; the next transaction finds that one out. */
  const rolledBack = (): boolean => {
    try {
      if (db.isTransaction) db.exec("ROLLBACK");
      return true;
    } catch {
      return false;
    }
  };
  return {
    file,
    one,
    all: <T>(sql: string, ...args: SQLInputValue[]) => guarded(() => prepared(sql).all(...args)) as unknown as T[],
    run,
    transaction(body) {
      guarded(() => db.exec("BEGIN IMMEDIATE"));
      try {
        const result = body();
        try {
          db.exec("COMMIT");
        } catch (error) {
          throw failed(file, isFull(error) && rolledBack() ? "STORE_UNAVAILABLE" : "STORE_OUTCOME_UNKNOWN", error); // D3
        }
        return result;
      } catch (error) {
        rolledBack();
        throw error;
      }
    },
    meta: (name) => one<{ value: string }>("SELECT value FROM meta WHERE name = ?", name)?.value,
    setMeta: (name, value) => run("INSERT OR REPLACE INTO meta VALUES (?, ?)", name, value),
    close() {
      statements.clear();
      db.close();
    },
  };
};
