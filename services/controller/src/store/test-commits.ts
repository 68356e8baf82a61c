/** Commits for the tests of a store, and short ways to read one. */
import { randomUUID } from "node:crypto";
import type { AggregateRef, Commit, RecordWrite, StoredEvent } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";

/** Names that no other test of this process has. */
export const uniqueNames = (): ((what: string) => string) => {
  const run = randomUUID().slice(0, 4);
  let serial = 0;
  return (what) => {
    serial += 1;
    return `${what}-${run}-${serial}`;
  };
};

export const ref = (key: string, kind: AggregateRef["kind"] = "volume"): AggregateRef => ({ kind, key });

export const write = (
  key: string,
  expectedRev: number,
  body: string | null,
  more: Partial<RecordWrite> = {},
): RecordWrite => ({ ref: ref(key), expectedRev, body, indexes: [], due: [], ...more });

export const commitOf = (writes: readonly RecordWrite[], more: Partial<Commit> = {}): Commit => ({
  opId: randomUUID(),
  writes,
  events: [],
  requiresVetted: false,
  ...more,
});

/** All pages of an index. */
export const keysOf = async (store: Store, index: string, value: string, limit = 100): Promise<readonly string[]> => {
  const keys: string[] = [];
  let after: string | undefined;
  do {
    const page = await store.list({ index, value, limit, ...(after === undefined ? {} : { after }) });
    keys.push(...page.records.map((record) => record.ref.key));
    after = page.next;
  } while (after !== undefined);
  return keys;
};

/** The next events, then the watch ends. */
export const take = async (
  store: Store,
  after: string,
  count: number,
  signal?: AbortSignal,
): Promise<readonly StoredEvent[]> => {
  const stop = new AbortController();
  const events: StoredEvent[] = [];
  for await (const event of store.watch(after, signal ?? stop.signal)) {
    events.push(event);
    if (events.length >= count) break;
  }
  stop.abort();
  return events;
};
