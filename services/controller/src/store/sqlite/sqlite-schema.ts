import type { DatabaseSync } from "node:sqlite";

export const schemaVersion = 1;

/** One file, one process. WAL with synchronous FULL: what was answered is on disk. */
export const prepareSchema = (db: DatabaseSync): void => {
  db.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA busy_timeout = 5000;
    CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    -- A removed record stays as a row without a body, so that its revision goes on rising.
    CREATE TABLE IF NOT EXISTS records (
      kind TEXT NOT NULL, key TEXT NOT NULL, rev INTEGER NOT NULL, body TEXT, expires INTEGER,
      PRIMARY KEY (kind, key)) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS records_expiring ON records (expires) WHERE expires IS NOT NULL;
    CREATE TABLE IF NOT EXISTS entries (
      name TEXT NOT NULL, value TEXT NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,
      PRIMARY KEY (name, value, key, kind)) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS entries_of_record ON entries (kind, key);
    CREATE TABLE IF NOT EXISTS due (
      queue TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL,
      PRIMARY KEY (queue, kind, key)) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS due_order ON due (queue, at);
    CREATE INDEX IF NOT EXISTS due_of_record ON due (kind, key);
    CREATE TABLE IF NOT EXISTS events (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS operations (seq INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT NOT NULL UNIQUE, result TEXT NOT NULL);
  `);
};
