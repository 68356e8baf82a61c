/** How many events a watch holds that its reader does not take, and that it tells all of them when they are taken. */
import { createNotifier } from "@holdfast/shared/async/notifier";
import { describe, expect, it, onTestFinished } from "vitest";
import type { StoredEvent } from "../domain/store-types.ts";
import { eventPage } from "./event-page.ts";
import { eventToken } from "./event-token.ts";
import type { EventTail, SequencedEvent } from "./redis/event-tail.ts";
import type { RedisConnection } from "./redis/redis-connection.ts";
import { watchEvents } from "./redis/watch-events.ts";
import { openSqliteDatabase } from "./sqlite/sqlite-database.ts";
import { watchSqlite } from "./sqlite/sqlite-events.ts";

const life = "aaaa";
const written = 1_000;
const mostHeld = 32;

interface Watch {
  readonly events: AsyncIterator<StoredEvent>;
  /** Events that left the store for this watch. */
  readonly handed: () => number;
}

const member = "v:k";
const inMemory = (seq: number): SequencedEvent => ({ seq, type: "t", ref: { kind: "volume", key: "k" }, body: "b" });

/** `ring`: the process has the newest events from this number on. */
const redisWatch = (signal: AbortSignal, ring = written + 1): Watch => {
  let handed = 0;
  const connection = {
    connected: async () => ({ session: 1, runId: life }),
    async call(command: string, _stream: string, from: string, _to: string, _count: string, count: number) {
      expect(command).toBe("XRANGE");
      const first = Number(from.slice(2));
      const entries = Array.from({ length: Math.min(count, written - first + 1) }, (_, i) => first + i);
      handed += entries.length;
      return entries.map((seq) => [`0-${seq}`, ["t", "t", "m", member, "b", "b"]]);
    },
  } as unknown as RedisConnection;
  const tail: EventTail = {
    arrived: createNotifier(),
    recent(_runId, seq, limit) {
      if (seq < ring) return [];
      const kept = Array.from({ length: Math.max(0, Math.min(limit, written - seq + 1)) }, (_, i) => inMemory(seq + i));
      handed += kept.length;
      return kept;
    },
    sent: () => () => undefined,
    committed: () => undefined,
  };
  const after = eventToken(life, 1);
  const watch = watchEvents({ connection, tail, stream: "events", after, signal });
  return { events: watch[Symbol.asyncIterator](), handed: () => handed };
};

const sqliteWatch = (signal: AbortSignal): Watch => {
  const db = openSqliteDatabase(":memory:");
  onTestFinished(db.close);
  for (let seq = 1; seq <= written; seq += 1)
    db.run("INSERT INTO events (type, kind, key, body) VALUES (?, ?, ?, ?)", "t", "volume", "k", "b");
  let handed = 0;
  const counted: typeof db = {
    ...db,
    all<T>(...asked: Parameters<typeof db.all>) {
      const rows = db.all<T>(...asked);
      handed += rows.length;
      return rows;
    },
  };
  const changed = createNotifier();
  const watch = watchSqlite({ db: counted, life, isOwn: () => false, changed, after: eventToken(life, 1), signal });
  return { events: watch[Symbol.asyncIterator](), handed: () => handed };
};

describe.each<readonly [string, (signal: AbortSignal) => Watch]>([
  ["that reads Redis", (signal) => redisWatch(signal)],
  ["that is close behind the end of Redis", (signal) => redisWatch(signal, 1)],
  ["of SQLite", sqliteWatch],
])("a watch %s", (_, start) => {
  it("from an old token holds a page of what its reader does not take, and tells each event once", async () => {
    const stop = new AbortController();
    onTestFinished(() => stop.abort());
    const { events, handed } = start(stop.signal);
    const seen: string[] = [];
    const takeOne = async (): Promise<void> => {
      const { value } = await events.next();
      seen.push(value.token);
      // One more is looked at with each page, to know whether there are more.
      expect(handed() - seen.length).toBeLessThanOrEqual(mostHeld + Math.ceil(seen.length / eventPage));
    };
    await takeOne();
    expect(handed()).toBeLessThanOrEqual(mostHeld + 1);
    while (seen.length < written - 1) await takeOne();
    expect(seen).toEqual(Array.from({ length: written - 1 }, (__, i) => eventToken(life, i + 2)));
  });
});
