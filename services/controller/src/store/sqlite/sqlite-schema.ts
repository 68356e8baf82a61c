export const sqliteSchema = `
  CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  -- A removed record stays for a day as a row without a body, so that its revision goes on rising.
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
    PRIMARY KEY (kind, key, queue)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS due_order ON due (queue, at);
  -- AUTOINCREMENT: a number never comes twice, also when every row was pruned.
  CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS operations (seq INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT NOT NULL UNIQUE, result TEXT NOT NULL);
`;
