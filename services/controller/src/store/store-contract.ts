/** One suite for every store: what the rest of the controller relies on. Run by the tests beside each implementation. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sample } from "../../../../test/support/full.ts";
import type { AggregateRef, Commit, IndexEntry, RecordWrite, StoredEvent } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";

export interface StoreHarness {
  readonly store: Store;
  /** A second opener of the same data, where the kind of store has such. */
  readonly other: Store;
  /** Small, so that pruning can be seen. */
  readonly maxEvents: number;
  stop(): Promise<void>;
}

let serial = 0;
const fresh = (what: string): string => {
  serial += 1;
  return `${what}-${process.pid}-${serial}`;
};

const ref = (key: string, kind: AggregateRef["kind"] = "volume"): AggregateRef => ({ kind, key });

const write = (
  key: string,
  expectedRev: number,
  body: string | null,
  more: Partial<RecordWrite> = {},
): RecordWrite => ({
  ref: ref(key),
  expectedRev,
  body,
  indexes: [],
  due: [],
  ...more,
});

const commitOf = (writes: readonly RecordWrite[], more: Partial<Commit> = {}): Commit => ({
  opId: fresh("op"),
  writes,
  events: [],
  requiresVetted: false,
  ...more,
});

const keysOf = async (store: Store, index: string, value: string, limit = 100): Promise<readonly string[]> => {
  const keys: string[] = [];
  let after: string | undefined;
  do {
    const page = await store.list({ index, value, limit, ...(after === undefined ? {} : { after }) });
    keys.push(...page.records.map((r) => r.ref.key));
    after = page.next;
  } while (after !== undefined);
  return keys;
};

const take = async (store: Store, after: string, count: number): Promise<readonly StoredEvent[]> => {
  const stop = new AbortController();
  const events: StoredEvent[] = [];
  for await (const event of store.watch(after, stop.signal)) {
    events.push(event);
    if (events.length >= count) break;
  }
  stop.abort();
  return events;
};

export const describeStore = (name: string, open: () => Promise<StoreHarness>): void => {
  describe(`store contract: ${name}`, () => {
    let harness: StoreHarness;
    let store: Store;

    beforeAll(async () => {
      harness = await open();
      store = harness.store;
      const { runId } = await store.identity();
      await store.markVetted(runId, 1);
    });
    afterAll(() => harness.stop());

    it("answers what was committed, and nothing for what was not", async () => {
      const key = fresh("k");
      expect(await store.get(ref(key))).toBeUndefined();
      expect(await store.commit(commitOf([write(key, 0, "one")]))).toMatchObject({ ok: true, revs: [1] });
      expect(await store.get(ref(key))).toEqual({ ref: ref(key), rev: 1, body: "one" });
      expect(await store.get(ref(key, "node"))).toBeUndefined();
      expect(await store.getMany([ref("none"), ref(key)])).toEqual([undefined, { ref: ref(key), rev: 1, body: "one" }]);
      expect(await harness.other.get(ref(key))).toEqual({ ref: ref(key), rev: 1, body: "one" });
    });

    it("keeps any text as it is", async () => {
      const key = fresh("k");
      const body = JSON.stringify({ empty: [], none: {}, text: 'ü "\\ \u2028 \n', big: 2 ** 53 - 1 });
      await store.commit(commitOf([write(key, 0, body)]));
      expect((await store.get(ref(key)))?.body).toBe(body);
    });

    it("[I1] refuses a commit on an old revision, names every conflict and writes nothing", async () => {
      const [a, b, c] = [fresh("k"), fresh("k"), fresh("k")];
      await store.commit(commitOf([write(a, 0, "a1"), write(b, 0, "b1")]));
      await store.commit(commitOf([write(a, 1, "a2")]));
      const result = await store.commit(
        commitOf([write(a, 1, "x"), write(b, 0, "x"), write(c, 0, "x"), write(fresh("k"), 4, "x")]),
      );
      expect(result).toMatchObject({ ok: false });
      expect(result.ok ? [] : result.conflicts.map((it) => it.rev)).toEqual([2, 1, 0]);
      expect((await store.getMany([ref(a), ref(b), ref(c)])).map((r) => r?.body)).toEqual(["a2", "b1", undefined]);
    });

    it("answers a repeated operation with the first result, also after seven others", async () => {
      const key = fresh("k");
      const first = commitOf([write(key, 0, "1")]);
      const answer = await store.commit(first);
      for (let rev = 1; rev <= 7; rev += 1) await store.commit(commitOf([write(key, rev, String(rev + 1))]));
      expect(await store.commit(first)).toEqual(answer);
      expect(await store.get(ref(key))).toMatchObject({ rev: 8, body: "8" });
    });

    it("removes, and lets revisions rise over a removal", async () => {
      const key = fresh("k");
      await store.commit(commitOf([write(key, 0, "1", { indexes: [{ index: "i", value: key }] })]));
      expect(await store.commit(commitOf([write(key, 1, null)]))).toMatchObject({ ok: true, revs: [2] });
      expect(await store.get(ref(key))).toBeUndefined();
      expect(await keysOf(store, "i", key)).toEqual([]);
      expect(await store.commit(commitOf([write(key, 2, "again")]))).toMatchObject({
        ok: false,
        conflicts: [{ rev: 0 }],
      });
      expect(await store.commit(commitOf([write(key, 0, "again")]))).toMatchObject({ ok: true, revs: [3] });
    });

    it("lists by index in the order of keys, with a cursor that survives changes", async () => {
      const value = fresh("v");
      const index: readonly IndexEntry[] = [{ index: "n", value }];
      const keys = ["a", "a.b", "a-c", "ab", "b", "c"].map((k) => `${value}/${k}`);
      for (const key of keys) await store.commit(commitOf([write(key, 0, key, { indexes: index })]));
      const sorted = [...keys].sort();
      expect(await keysOf(store, "n", value, 2)).toEqual(sorted);
      const page = await store.list({ index: "n", value, limit: 3 });
      const cursor = page.next ?? "";
      expect(cursor).toBe(sorted[2]);
      await store.commit(commitOf([write(sorted[2] ?? "", 1, null)]));
      await store.commit(
        commitOf([write(sorted[3] ?? "", 1, "moved", { indexes: [{ index: "n", value: `${value}-other` }] })]),
      );
      const rest = await store.list({ index: "n", value, limit: 10, after: cursor });
      expect(rest.records.map((r) => r.ref.key)).toEqual(sorted.slice(4));
      expect(rest.next).toBeUndefined();
      expect(await keysOf(store, "n", `${value}-other`)).toEqual([sorted[3]]);
    });

    it("keeps a record in several indexes and queues, and replaces the whole set at each write", async () => {
      const key = fresh("k");
      const due = (at: number, queue = key) => [{ queue, at }];
      await store.commit(
        commitOf([
          write(key, 0, "1", {
            indexes: [
              { index: "x", value: key },
              { index: "y", value: key },
            ],
            due: due(50),
          }),
        ]),
      );
      expect(await store.due(key, 49, 10)).toEqual([]);
      expect(await store.due(key, 50, 10)).toEqual([{ queue: key, ref: ref(key), at: 50 }]);
      expect(await store.nextDue(key)).toBe(50);
      await store.commit(commitOf([write(key, 1, "2", { indexes: [{ index: "y", value: key }], due: due(70) })]));
      expect(await keysOf(store, "x", key)).toEqual([]);
      expect(await keysOf(store, "y", key)).toEqual([key]);
      expect(await store.due(key, 1e15, 10)).toEqual([{ queue: key, ref: ref(key), at: 70 }]);
      await store.commit(commitOf([write(key, 2, "3")]));
      expect(await store.due(key, 1e15, 10)).toEqual([]);
      expect(await store.nextDue(key)).toBeUndefined();
    });

    it("answers what is due oldest first, and no more than asked", async () => {
      const queue = fresh("q");
      for (const at of [30, 10, 20])
        await store.commit(commitOf([write(fresh("k"), 0, "x", { due: [{ queue, at }] })]));
      expect((await store.due(queue, 100, 2)).map((d) => d.at)).toEqual([10, 20]);
      expect(await store.nextDue(queue)).toBe(10);
    });

    it("forgets a record with a time to live, everywhere", async () => {
      const key = fresh("k");
      const tomb = write(key, 0, "x", { ref: ref(key, "tombstone"), ttlMs: 1, indexes: [{ index: "t", value: key }] });
      await store.commit(commitOf([tomb]));
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(await store.get(ref(key, "tombstone"))).toBeUndefined();
      expect(await keysOf(store, "t", key)).toEqual([]);
      expect(await store.commit(commitOf([tomb]))).toMatchObject({ ok: true });
    });

    it("streams events in order, from a token, to every watcher", async () => {
      const head = await store.head();
      const key = fresh("k");
      const event = (n: number) => ({ type: "volume", ref: ref(key), body: `e${n}` });
      await store.commit(commitOf([write(key, 0, "1")], { events: [event(1), event(2)] }));
      const late = take(harness.other, head, 3);
      await store.commit(commitOf([write(key, 1, "2")], { events: [event(3)] }));
      const events = await late;
      expect(events.map((e) => e.body)).toEqual(["e1", "e2", "e3"]);
      expect((await take(store, events[1]?.token ?? "", 1)).map((e) => e.body)).toEqual(["e3"]);
      expect(await store.head()).toBe(events[2]?.token);
    });

    it("an aborted watch rejects", async () => {
      const stop = new AbortController();
      const watching = (async () => {
        for await (const _ of store.watch(await store.head(), stop.signal));
      })();
      stop.abort(new Error("enough"));
      await expect(watching).rejects.toThrow("enough");
    });

    it("says so when events were pruned past a token", async () => {
      const head = await store.head();
      const key = fresh("k");
      const events = Array.from({ length: harness.maxEvents }, (_, i) => ({
        type: "volume",
        ref: ref(key),
        body: `${i}`,
      }));
      await store.commit(commitOf([write(key, 0, "1")], { events }));
      await store.commit(commitOf([write(key, 1, "2")], { events }));
      await store.commit(commitOf([write(key, 2, "3")], { events }));
      await expect(take(store, head, 1)).rejects.toMatchObject({ kind: "out_of_range", reason: "EVENTS_TRIMMED" });
    });

    it("[I8] grants only from the process that was vetted; the rest goes on", async () => {
      const { runId, gen } = await store.identity();
      const key = fresh("k");
      await store.markVetted(runId, gen);
      expect(await store.commit(commitOf([write(key, 0, "1")], { requiresVetted: true }))).toMatchObject({ ok: true });
      expect(await store.identity()).toMatchObject({ vettedRunId: runId, gen });
      await store.markVetted(runId, gen + 5);
      expect((await store.identity()).gen).toBe(gen + 5);
    });

    it("refuses what no implementation may take", async () => {
      const key = fresh("k");
      const tooBig = commitOf([write(key, 0, "x".repeat((1 << 20) + 1)), write(key, -1, "y")]);
      await expect((async () => store.commit(tooBig))()).rejects.toMatchObject({ kind: "invalid" });
      expect(await store.get(ref(key))).toBeUndefined();
    });

    it("[I1] 32 at once count to 32 exactly", async () => {
      const key = fresh("k");
      await store.commit(commitOf([write(key, 0, "0")]));
      const increment = async (): Promise<void> => {
        for (;;) {
          const now = await store.get(ref(key));
          if (now === undefined) throw new Error("gone");
          const next = commitOf([write(key, now.rev, String(Number(now.body) + 1))]);
          if ((await store.commit(next)).ok) return;
        }
      };
      await Promise.all(Array.from({ length: 32 }, increment));
      expect((await store.get(ref(key)))?.body).toBe("32");
    });

    it("behaves as a map with revisions, under any sequence of commits", async () => {
      const step = fc.record({
        writes: fc.uniqueArray(
          fc.record({ slot: fc.nat(3), stale: fc.boolean(), remove: fc.boolean(), index: fc.option(fc.nat(2)) }),
          { selector: (w) => w.slot, minLength: 1, maxLength: 4 },
        ),
        repeat: fc.boolean(),
      });
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
          const base = fresh("m");
          const model = new Map<number, { rev: number; body: string | undefined; index: number | null }>();
          for (const { writes, repeat } of steps) {
            const seen = (slot: number) => model.get(slot) ?? { rev: 0, body: undefined, index: null };
            const visible = (slot: number): number => (seen(slot).body === undefined ? 0 : seen(slot).rev);
            const commit = commitOf(
              writes.map((w) =>
                write(`${base}/${w.slot}`, visible(w.slot) + (w.stale ? 1 : 0), w.remove ? null : fresh("b"), {
                  indexes: w.index === null ? [] : [{ index: "m", value: `${base}-${w.index}` }],
                }),
              ),
            );
            const result = await store.commit(commit);
            expect(result.ok).toBe(writes.every((w) => !w.stale));
            if (repeat && result.ok) expect(await store.commit(commit)).toEqual(result);
            if (!result.ok) continue;
            writes.forEach((w, i) => {
              const body = commit.writes[i]?.body ?? undefined;
              model.set(w.slot, { rev: seen(w.slot).rev + 1, body, index: w.remove ? null : w.index });
            });
            expect(result.revs).toEqual(writes.map((w) => seen(w.slot).rev));
          }
          for (const [slot, want] of model) expect((await store.get(ref(`${base}/${slot}`)))?.body).toBe(want.body);
          for (const value of [0, 1, 2])
            expect(await keysOf(store, "m", `${base}-${value}`)).toEqual(
              [...model]
                .filter(([, r]) => r.index === value && r.body !== undefined)
                .map(([slot]) => `${base}/${slot}`)
                .sort(),
            );
        }),
        { numRuns: sample(200, 30) },
      );
    });
  });
};
