import type { Notifier } from "@holdfast/shared/async/notifier";
import type { AggregateKind, StoredEvent } from "../../domain/store-types.ts";
import { eventPage } from "../event-page.ts";
import { eventToken, seqOfToken } from "../event-token.ts";
import { eventsTrimmed } from "../store-errors.ts";
import { headOf } from "./sqlite-commit.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

export interface WatchSqliteOptions {
  readonly db: SqliteDatabase;
  readonly life: string;
  /** Whether this opener of the file committed the event, and was told so. */
  readonly isOwn: (seq: number) => boolean;
  /** Notified after each commit that has events. */
  readonly changed: Notifier;
  readonly after: string;
  readonly signal: AbortSignal;
}

interface EventRow {
  readonly seq: number;
  readonly type: string;
  readonly kind: AggregateKind;
  readonly key: string;
  readonly body: string;
}

/** Each event once and in order; numbers have no gaps, so that a gap says what was pruned. */
export async function* watchSqlite({
  db,
  life,
  isOwn,
  changed,
  after,
  signal,
}: WatchSqliteOptions): AsyncIterable<StoredEvent> {
  let seq = seqOfToken(life, after) ?? Number.POSITIVE_INFINITY;
  signal.throwIfAborted();
  if (seq > headOf(db)) throw eventsTrimmed(after, "the store was replaced since, or the token is none");
  for (;;) {
    signal.throwIfAborted();
    const seen = changed.version();
    const rows = db.all<EventRow>("SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ?", seq, eventPage);
    const first = rows[0]?.seq ?? headOf(db) + 1;
    if (first > seq + 1) throw eventsTrimmed(eventToken(life, seq), "they were pruned", eventToken(life, first - 1));
    for (const row of rows) {
      signal.throwIfAborted();
      seq = row.seq;
      const ref = { kind: row.kind, key: row.key };
      const stored = { token: eventToken(life, seq), type: row.type, ref, body: row.body };
      yield isOwn(seq) ? { ...stored, own: true } : stored;
    }
    if (rows.length < eventPage) await changed.wait(seen, signal);
  }
}
