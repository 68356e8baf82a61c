/** What the controller relies on in its store. One suite; the tests beside each implementation run it. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { aggregateKinds, type Commit, type StoredEvent, type StoreIdentity } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import { describeStoreBounds } from "./store-bounds.ts";
import { describeStoreModel } from "./store-model.ts";
import { describeStoreOrder } from "./store-order.ts";
import { commitOf, keysOf, ref, take, uniqueNames, write } from "./test-commits.ts";
import { vetAnew } from "./vet-anew.ts";

export interface StoreHarness {
  readonly store: Store;
  /** A second opener of the same data, where the kind of store has such. */
  readonly other: Store;
  /** Small, so that pruning can be seen. */
  readonly maxEvents: number;
  /** The stored generation no longer names this process, as after a restart or a restored backup. */
  unvet(): Promise<void>;
  /** Lets the store's clock move on. */
  pass(ms: number): Promise<void>;
  /** Another life of the client that `store` is; the tests after it have that one. */
  reopen(): Promise<void>;
  stop(): Promise<void>;
}

export const describeStore = (name: string, open: () => Promise<StoreHarness>): void => {
  describe(`store contract: ${name}`, () => {
    const fresh = uniqueNames();
    let harness: StoreHarness;
    let store: Store;

    const vet = (): Promise<StoreIdentity> => vetAnew(store);

    beforeAll(async () => {
      harness = await open();
      store = harness.store;
      await vet();
    });
    afterAll(() => harness?.stop());

    describe("records", () => {
      it("answers what was committed, and nothing for what was not", async () => {
        const key = fresh("k");
        expect(await store.get(ref(key))).toBeUndefined();
        expect(await store.commit(commitOf([write(key, 0, "one")]))).toMatchObject({ ok: true, revs: [1] });
        expect(await store.get(ref(key))).toEqual({ ref: ref(key), rev: 1, body: "one" });
        expect(await store.get(ref(key, "node"))).toBeUndefined();
        expect(await store.getMany([])).toEqual([]);
        const many = await store.getMany([ref("none"), ref(key), ref(key)]);
        expect(many).toEqual([
          undefined,
          { ref: ref(key), rev: 1, body: "one" },
          { ref: ref(key), rev: 1, body: "one" },
        ]);
        expect(await harness.other.get(ref(key))).toEqual({ ref: ref(key), rev: 1, body: "one" });
      });

      it("reads several records as they were in one moment", async () => {
        const [a, b] = [fresh("k"), fresh("k")];
        await store.commit(commitOf([write(a, 0, "0"), write(b, 0, "0")]));
        const writing = (async () => {
          for (let rev = 1; rev <= 100; rev += 1)
            await store.commit(commitOf([write(a, rev, `${rev}`), write(b, rev, `${rev}`)]));
        })();
        for (let last = ""; last !== "100"; ) {
          const [first, second] = await harness.other.getMany([ref(a), ref(b)]);
          expect(second?.body).toBe(first?.body);
          last = first?.body ?? "";
        }
        await writing;
      });

      it("keeps any text as it is", async () => {
        const bodies = [
          JSON.stringify({ empty: [], none: {}, text: 'ü "\\ \u2028 \0 \n\t', big: 2 ** 53 - 1, float: 1e-7 }),
          "",
          "🦆".repeat(1000),
        ];
        for (const body of bodies) {
          const key = fresh("k");
          await store.commit(commitOf([write(key, 0, body)]));
          expect((await store.get(ref(key)))?.body).toBe(body);
        }
      });

      it("refuses an old revision, names every conflict and writes nothing at all", async () => {
        const [a, b, c, d] = [fresh("k"), fresh("k"), fresh("k"), fresh("k")];
        await store.commit(commitOf([write(a, 0, "a1"), write(b, 0, "b1")]));
        await store.commit(commitOf([write(a, 1, "a2")]));
        const head = await store.head();
        const refused = commitOf([write(a, 1, "x"), write(b, 0, "x"), write(c, 0, "x"), write(d, 4, "x")], {
          events: [{ type: "volume", ref: ref(a), body: "x" }],
        });
        expect(await store.commit(refused)).toEqual({
          ok: false,
          conflicts: [
            { ref: ref(a), rev: 2 },
            { ref: ref(b), rev: 1 },
            { ref: ref(d), rev: 0 },
          ],
        });
        const bodies = (await store.getMany([ref(a), ref(b), ref(c), ref(d)])).map((record) => record?.body);
        expect(bodies).toEqual(["a2", "b1", undefined, undefined]);
        expect(await store.head()).toBe(head);
      });

      it("writes several kinds in one step, each under its own revision", async () => {
        const key = fresh("k");
        const all = aggregateKinds.map((kind, n) => write(key, 0, `${n}`, { ref: ref(key, kind) }));
        expect(await store.commit(commitOf(all))).toMatchObject({ ok: true, revs: aggregateKinds.map(() => 1) });
        const found = await store.getMany(aggregateKinds.map((kind) => ref(key, kind)));
        expect(found).toEqual(aggregateKinds.map((kind, n) => ({ ref: ref(key, kind), rev: 1, body: `${n}` })));
      });

      it("lets revisions rise over a removal, so that an old one never fits again", async () => {
        const key = fresh("k");
        const places = { indexes: [{ index: "i", value: key }], due: [{ queue: "q", at: 5 }] };
        await store.commit(commitOf([write(key, 0, "1", places)]));
        expect(await store.commit(commitOf([write(key, 1, null, places)]))).toMatchObject({ ok: true, revs: [2] });
        expect(await store.get(ref(key))).toBeUndefined();
        expect(await keysOf(store, "i", key)).toEqual([]);
        expect((await store.due("q", 1e14, 1000)).map((entry) => entry.ref.key)).not.toContain(key);
        const late = await store.commit(commitOf([write(key, 2, "late")]));
        expect(late).toEqual({ ok: false, conflicts: [{ ref: ref(key), rev: 0 }] });
        expect(await store.commit(commitOf([write(key, 0, "2", places)]))).toMatchObject({ ok: true, revs: [3] });
        expect(await store.commit(commitOf([write(key, 1, "older")]))).toMatchObject({ ok: false });
        expect(await keysOf(store, "i", key)).toEqual([key]);
      });

      it("forgets a record past its time everywhere, and takes the key for a new one", async () => {
        const key = fresh("k");
        const tomb = ref(key, "tombstone");
        const places = { ref: tomb, indexes: [{ index: "t", value: key }] };
        await store.commit(commitOf([write(key, 0, "short", { ...places, ttlMs: 400 })]));
        expect(await keysOf(store, "t", key)).toEqual([key]);
        await harness.pass(420);
        expect(await store.get(tomb)).toBeUndefined();
        expect(await store.getMany([tomb])).toEqual([undefined]);
        expect(await keysOf(store, "t", key)).toEqual([]);
        const stale = await store.commit(commitOf([write(key, 1, "x", { ref: tomb })]));
        expect(stale).toEqual({ ok: false, conflicts: [{ ref: tomb, rev: 0 }] });
        const again = await store.commit(commitOf([write(key, 0, "long", { ...places, ttlMs: 3_600_000 })]));
        expect(again).toMatchObject({ ok: true, revs: [2] });
        expect(await keysOf(store, "t", key)).toEqual([key]);
        // Written without a time to live it stays.
        await store.commit(commitOf([write(key, 2, "shorter", { ...places, ttlMs: 400 })]));
        await store.commit(commitOf([write(key, 3, "for good", places)]));
        await harness.pass(420);
        expect(await store.get(tomb)).toMatchObject({ rev: 4, body: "for good" });
      });

      it("refuses what no implementation may take, with every violation, and writes nothing", async () => {
        const key = fresh("k");
        const wrong: Commit = {
          opId: "",
          writes: [
            write(key, 0, "x".repeat((1 << 20) + 1)),
            write(key, -1, "y"),
            write("", 0.5, "z", { due: [{ queue: "No", at: Number.NaN }], indexes: [{ index: "a:b", value: "\n" }] }),
          ],
          events: [{ type: "volume", ref: ref(key), body: "ü".repeat(1 << 20) }],
          requiresVetted: false,
        };
        const error = await store.commit(wrong).catch((thrown: unknown) => thrown);
        expect(error).toMatchObject({ kind: "invalid", reason: "INVALID_ARGUMENT" });
        const { violations } = error as { violations: readonly { field: string }[] };
        expect(violations.map(({ field }) => field.replace(key, "k"))).toEqual([
          "opId",
          "writes[0] (volume/k).body",
          "writes[1] (volume/k)",
          "writes[1] (volume/k).expectedRev",
          "writes[2] (volume/).ref.key",
          "writes[2] (volume/).expectedRev",
          "writes[2] (volume/).indexes",
          "writes[2] (volume/).indexes[a:b]",
          "writes[2] (volume/).due",
          "writes[2] (volume/).due[No]",
          "events[0] (volume/k).body",
        ]);
        await expect(store.commit(commitOf([]))).rejects.toMatchObject({ kind: "invalid" });
        expect(await store.get(ref(key))).toBeUndefined();
        const full = "x".repeat(1 << 20);
        await store.commit(commitOf([write(key, 0, full)]));
        expect((await store.get(ref(key)))?.body).toBe(full);
      });
    });

    describe("a repeated operation", () => {
      it("is answered with the first result, also after eight later writes, and does nothing", async () => {
        const [key, beside] = [fresh("k"), fresh("k")];
        const first = commitOf([write(key, 0, "1"), write(beside, 0, "b")], {
          events: [{ type: "volume", ref: ref(key), body: "once" }],
        });
        const head = await store.head();
        const answer = await store.commit(first);
        expect(await store.commit(first)).toEqual(answer);
        for (let rev = 1; rev <= 7; rev += 1) await store.commit(commitOf([write(key, rev, `${rev + 1}`)]));
        expect(await harness.other.commit(first)).toEqual(answer);
        expect(await store.get(ref(key))).toMatchObject({ rev: 8, body: "8" });
        expect(await store.get(ref(beside))).toMatchObject({ rev: 1 });
        expect((await take(store, head, 1)).map((event) => event.body)).toEqual(["once"]);
        expect(await store.head()).toBe(answer.ok ? answer.token : "");
      });

      it("is known over the removal and the return of its record", async () => {
        const key = fresh("k");
        const removal = commitOf([write(key, 1, null)]);
        await store.commit(commitOf([write(key, 0, "1")]));
        const answer = await store.commit(removal);
        expect(await store.commit(removal)).toEqual(answer);
        await store.commit(commitOf([write(key, 0, "2")]));
        expect(await store.commit(removal)).toEqual(answer);
        expect(await store.get(ref(key))).toMatchObject({ rev: 3, body: "2" });
      });

      it("is known when another took away what it made: it is not made again", async () => {
        const key = fresh("k");
        const making = commitOf([write(key, 0, "1")]);
        const answer = await store.commit(making);
        await harness.other.commit(commitOf([write(key, 1, null)]));
        expect(await store.commit(making)).toEqual(answer);
        expect(await store.get(ref(key))).toBeUndefined();
      });

      it("sent twice at the same time is done once, and both are answered alike", async () => {
        const key = fresh("k");
        const head = await store.head();
        const twice = commitOf([write(key, 0, "1")], { events: [{ type: "volume", ref: ref(key), body: "once" }] });
        const answers = await Promise.all([store.commit(twice), harness.other.commit(twice), store.commit(twice)]);
        expect(answers[0]).toMatchObject({ ok: true, revs: [1] });
        expect(answers).toEqual([answers[0], answers[0], answers[0]]);
        expect(await take(store, head, 1)).toMatchObject([{ body: "once" }]);
        expect(await store.head()).toBe(answers[0].ok ? answers[0].token : "");
      });

      it("that was refused is compared anew", async () => {
        const key = fresh("k");
        const early = commitOf([write(key, 1, "2")]);
        expect(await store.commit(early)).toMatchObject({ ok: false });
        await store.commit(commitOf([write(key, 0, "1")]));
        expect(await store.commit(early)).toMatchObject({ ok: true, revs: [2] });
      });
    });

    describeStoreOrder({ store: () => store, other: () => harness.other, fresh });

    describe("a commit that wants to be alone", () => {
      it("passes while no other record carries the entry, and is refused whole otherwise", async () => {
        const [value, a, b] = [fresh("v"), fresh("k"), fresh("k")];
        const alone = { index: "n", value };
        const indexes = [alone];
        const first = commitOf([write(a, 0, "1", { indexes })], { alone });
        const answer = await store.commit(first);
        expect(answer).toMatchObject({ ok: true, revs: [1] });
        const head = await store.head();
        const events = [{ type: "volume", ref: ref(b), body: "x" }];
        const refused = commitOf([write(b, 0, "x", { indexes })], { events, alone });
        expect(await harness.other.commit(refused)).toEqual({ ok: false, conflicts: [], crowded: true });
        const beside = commitOf([write(fresh("k"), 0, "x"), write(b, 0, "x")], { alone });
        expect(await store.commit(beside)).toEqual({ ok: false, conflicts: [], crowded: true });
        expect(await keysOf(store, "n", value)).toEqual([a]);
        expect(await store.head()).toBe(head);
        // Of both it is alone.
        const both = commitOf([write(b, 0, "1", { indexes }), write(a, 1, "2", { indexes })], { alone });
        expect(await store.commit(both)).toMatchObject({ ok: true, revs: [1, 2] });
        // A repeat is answered as before, whatever came since.
        expect(await store.commit(first)).toEqual(answer);
        // Revisions first: whoever is late has to read anyway.
        const late = commitOf([write(a, 1, "late")], { alone });
        expect(await store.commit(late)).toEqual({ ok: false, conflicts: [{ ref: ref(a), rev: 2 }] });
        await store.commit(commitOf([write(b, 1, "2")]));
        expect(await store.commit(commitOf([write(a, 2, "3", { indexes })], { alone }))).toMatchObject({ ok: true });
      });

      it("may have to be so with several entries", async () => {
        const entries = ["x", "y"].map((index) => ({ index, value: fresh("v") }));
        const [last] = entries.slice(-1);
        const holder = fresh("k");
        expect(await store.commit(commitOf([write(fresh("k"), 0, "1")], { alone: [] }))).toMatchObject({ ok: true });
        await store.commit(commitOf([write(holder, 0, "1", { indexes: last === undefined ? [] : [last] })]));
        const wanted = commitOf([write(fresh("k"), 0, "1")], { alone: entries });
        expect(await store.commit(wanted)).toEqual({ ok: false, conflicts: [], crowded: true });
        await store.commit(commitOf([write(holder, 1, "2")]));
        expect(await store.commit(wanted)).toMatchObject({ ok: true });
      });

      it("of two that would each be alone lets one be", async () => {
        for (let round = 0; round < 20; round += 1) {
          const [value, a, b] = [fresh("v"), fresh("k"), fresh("k")];
          const alone = { index: "n", value };
          const commit = (key: string) => commitOf([write(key, 0, key, { indexes: [alone] })], { alone });
          const answers = await Promise.all([store.commit(commit(a)), harness.other.commit(commit(b))]);
          expect(answers.filter(({ ok }) => ok)).toHaveLength(1);
          expect(answers.find(({ ok }) => !ok)).toEqual({ ok: false, conflicts: [], crowded: true });
          expect(await keysOf(store, "n", value)).toHaveLength(1);
        }
      });

      it("sees every carrier of an entry that many have", async () => {
        const alone = { index: "n", value: fresh("v") };
        const keys = Array.from({ length: 300 }, (_, n) => `${alone.value}-${String(n).padStart(3, "0")}`);
        const rewrite = (rev: number, left?: number) =>
          commitOf(
            keys.filter((_, n) => n !== left).map((key) => write(key, rev, "1", { indexes: [alone] })),
            { alone },
          );
        expect(await store.commit(rewrite(0))).toMatchObject({ ok: true });
        for (const left of [0, 119, 120, 299])
          expect(await store.commit(rewrite(1, left))).toMatchObject({ ok: false, crowded: true });
        expect(await store.commit(rewrite(1))).toMatchObject({ ok: true });
      });
    });

    describeStoreBounds({ store: () => store, other: () => harness.other, fresh });

    describe("a commit that expects records it does not write", () => {
      it("passes while each has its revision, and is refused whole otherwise", async () => {
        const [a, b, read] = [fresh("k"), fresh("k"), ref(fresh("s"), "secret")];
        const absent = { ref: read, expectedRev: 0 };
        expect(await store.commit(commitOf([write(a, 0, "1")], { expects: [absent] }))).toMatchObject({ ok: true });
        await store.commit(commitOf([{ ...write("", 0, "s"), ref: read }]));
        expect(await harness.other.commit(commitOf([write(a, 1, "2")], { expects: [absent] }))).toEqual({
          ok: false,
          conflicts: [{ ref: read, rev: 1 }],
        });
        const there = { ref: read, expectedRev: 1 };
        const events = [{ type: "volume", ref: ref(b), body: "b" }];
        const both = commitOf([write(a, 1, "2"), write(b, 0, "1")], { expects: [there], events });
        expect(await store.commit(both)).toMatchObject({ ok: true, revs: [2, 1] });
        // Only compared: the record is as it was, and what is wrong with the writes is told with it.
        expect(await store.get(read)).toMatchObject({ rev: 1, body: "s" });
        await store.commit(commitOf([{ ...write("", 1, null), ref: read }]));
        expect(await store.commit(commitOf([write(a, 1, "late")], { expects: [there] }))).toEqual({
          ok: false,
          conflicts: [
            { ref: ref(a), rev: 2 },
            { ref: read, rev: 0 },
          ],
        });
        expect(await store.commit(both)).toMatchObject({ ok: true, revs: [2, 1] });
        await expect(
          store.commit(commitOf([write(a, 2, "3")], { expects: [{ ref: ref(a), expectedRev: 2 }] })),
        ).rejects.toMatchObject({ kind: "invalid" });
      });

      it("and the removal of such a record: one of the two passes", async () => {
        for (let round = 0; round < 20; round += 1) {
          const [user, read] = [fresh("k"), ref(fresh("s"), "secret")];
          const carried = { index: "n", value: read.key };
          await store.commit(commitOf([{ ...write("", 0, "s"), ref: read }]));
          const answers = await Promise.all([
            store.commit(
              commitOf([write(user, 0, "u", { indexes: [carried] })], { expects: [{ ref: read, expectedRev: 1 }] }),
            ),
            harness.other.commit(commitOf([{ ...write("", 1, null), ref: read }], { alone: carried })),
          ]);
          expect(answers.filter(({ ok }) => ok)).toHaveLength(1);
        }
      });
    });

    describe("indexes and queues", () => {
      it("lists in the order of keys, with a cursor that survives changes", async () => {
        const value = fresh("v");
        const indexes = [{ index: "n", value }];
        const keys = ["a", "a.b", "a-c", "a/d", "ab", "b", "c", "é"].map((key) => `${value}/${key}`);
        for (const key of keys.toReversed()) await store.commit(commitOf([write(key, 0, key, { indexes })]));
        const sorted = keys.toSorted((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
        for (const limit of [1, 2, 3, 8, 100]) expect(await keysOf(store, "n", value, limit)).toEqual(sorted);
        const page = await store.list({ index: "n", value, limit: 3 });
        expect(page.records.map(({ ref: { key }, body }) => [key, body])).toEqual(
          sorted.slice(0, 3).map((k) => [k, k]),
        );
        expect(page.next).toBe(sorted[2]);
        await store.commit(commitOf([write(sorted[2] ?? "", 1, null)]));
        const moved = { indexes: [{ index: "n", value: `${value}-other` }] };
        await store.commit(commitOf([write(sorted[3] ?? "", 1, "moved", moved)]));
        const rest = await store.list({ index: "n", value, limit: 10, after: page.next ?? "" });
        expect(rest.records.map((record) => record.ref.key)).toEqual(sorted.slice(4));
        expect(rest.next).toBeUndefined();
        expect(await keysOf(store, "n", `${value}-other`)).toEqual([sorted[3]]);
      });

      it("replaces all places of a record with each write", async () => {
        const key = fresh("k");
        const at = (...places: readonly string[]) => places.map((index) => ({ index, value: key }));
        await store.commit(commitOf([write(key, 0, "1", { indexes: at("x", "y"), due: [{ queue: key, at: 50 }] })]));
        expect(await store.due(key, 49, 10)).toEqual([]);
        expect(await store.due(key, 50, 10)).toEqual([{ queue: key, ref: ref(key), at: 50 }]);
        expect(await store.nextDue(key)).toBe(50);
        const next = {
          indexes: at("y", "z", "z"),
          due: [
            { queue: key, at: 70 },
            { queue: `${key}-b`, at: 1 },
          ],
        };
        await store.commit(commitOf([write(key, 1, "2", next)]));
        expect(await keysOf(store, "x", key)).toEqual([]);
        expect(await keysOf(store, "y", key)).toEqual([key]);
        expect(await keysOf(store, "z", key)).toEqual([key]);
        expect(await store.due(key, 1e14, 10)).toEqual([{ queue: key, ref: ref(key), at: 70 }]);
        expect(await store.nextDue(`${key}-b`)).toBe(1);
        await store.commit(commitOf([write(key, 2, "3")]));
        expect(await store.due(key, 1e14, 10)).toEqual([]);
        expect(await store.nextDue(key)).toBeUndefined();
        expect(await store.nextDue(`${key}-b`)).toBeUndefined();
        for (const index of ["x", "y", "z"]) expect(await keysOf(store, index, key)).toEqual([]);
      });

      it("answers what is due oldest first, and no more than asked", async () => {
        const queue = fresh("q");
        for (const at of [30, 10, 20])
          await store.commit(commitOf([write(fresh("k"), 0, "x", { due: [{ queue, at }] })]));
        expect((await store.due(queue, 100, 2)).map((entry) => entry.at)).toEqual([10, 20]);
        expect((await store.due(queue, 29, 9)).map((entry) => entry.at)).toEqual([10, 20]);
        expect(await store.nextDue(queue)).toBe(10);
      });
    });

    describe("events", () => {
      const event = (key: string, body: string) => ({ type: "volume", ref: ref(key), body });

      it("come in order, to every watcher, before and after they were asked for", async () => {
        const head = await store.head();
        const key = fresh("k");
        const first = await store.commit(
          commitOf([write(key, 0, "1")], { events: [event(key, "e1"), event(key, "e2")] }),
        );
        const watchers = [take(harness.other, head, 3), take(store, head, 3)];
        const last = await store.commit(commitOf([write(key, 1, "2")], { events: [event(key, "e3")] }));
        for (const events of await Promise.all(watchers))
          expect(events.map(({ type, ref: { key: of }, body }) => [type, of, body])).toEqual([
            ["volume", key, "e1"],
            ["volume", key, "e2"],
            ["volume", key, "e3"],
          ]);
        const [one = [] as readonly StoredEvent[]] = await Promise.all(watchers);
        expect((await take(store, one[1]?.token ?? "", 1)).map(({ body }) => body)).toEqual(["e3"]);
        expect(one[1]?.token).toBe(first.ok ? first.token : "");
        expect(await store.head()).toBe(last.ok ? last.token : "");
        expect(one[2]?.token).toBe(await store.head());
      });

      it("none is lost and none comes twice while many are written", async () => {
        const head = await store.head();
        const key = fresh("k");
        const seen = take(harness.other, head, 100);
        for (let n = 0; n < 50; n += 1)
          await store.commit(commitOf([write(key, n, `${n}`)], { events: [event(key, `${n}a`), event(key, `${n}b`)] }));
        const bodies = (await seen).map(({ body }) => body);
        expect(bodies).toEqual(Array.from({ length: 50 }, (_, n) => [`${n}a`, `${n}b`]).flat());
      });

      it("of this very client are own, those of others and of a former life never", async () => {
        const ownOnes = async (through: Store, seenBy: Store): Promise<readonly boolean[]> => {
          const [key, seen] = [fresh("k"), take(seenBy, await seenBy.head(), 50)];
          for (let n = 0; n < 50; n += 1)
            await through.commit(commitOf([write(key, n, "1")], { events: [event(key, "e")] }));
          return (await seen).map(({ own }) => own === true);
        };
        // A client that has just connected does not know its first events from those of others, and a busy one not all of them.
        const knowsItsOwn = async (): Promise<boolean> => {
          for (let round = 0; round < 20; round += 1)
            if ((await ownOnes(store, store)).filter(Boolean).length >= 25) return true;
          return false;
        };
        const before = await store.head();
        expect(await knowsItsOwn()).toBe(true);
        await harness.reopen();
        expect((await take(store, before, 50)).filter(({ own }) => own)).toEqual([]);
        expect(await knowsItsOwn()).toBe(true);
        const foreign = harness.other === store ? [] : await ownOnes(harness.other, store);
        expect(foreign).not.toContain(true);
        await vet();
      });

      it("a watch that is aborted rejects with the reason, waiting or not", async () => {
        const stop = new AbortController();
        const head = await store.head();
        const watching = (async () => {
          for await (const _ of store.watch(head, stop.signal));
        })();
        await new Promise((resolve) => setTimeout(resolve, 20));
        stop.abort(new Error("enough"));
        await expect(watching).rejects.toThrow("enough");
        await expect(take(store, head, 1, stop.signal)).rejects.toThrow("enough");
      });

      it("a token past which events were pruned is told, as is one that is none", async () => {
        const head = await store.head();
        const key = fresh("k");
        const events = Array.from({ length: harness.maxEvents }, (_, n) => event(key, `${n}`));
        for (let rev = 0; rev < 3; rev += 1) await store.commit(commitOf([write(key, rev, "x")], { events }));
        const newest = await store.head();
        for (const token of [head, "", "nonsense", `${newest}9`, newest.replace(/^[^-]*/, "0123")])
          await expect(take(store, token, 1), token).rejects.toMatchObject({
            kind: "out_of_range",
            reason: "EVENTS_TRIMMED",
            metadata: { token: expect.any(String) },
          });
      });
    });

    describe("vetting", () => {
      const grant = (key: string, rev: number) => commitOf([write(key, rev, "granted")], { requiresVetted: true });

      it("[I8] grants only from the process that was vetted; the rest goes on", async () => {
        const key = fresh("k");
        const before = grant(key, 0);
        const answer = await store.commit(before);
        expect(answer).toMatchObject({ ok: true });
        await harness.unvet();
        const identity = await store.identity();
        expect(identity.vettedRunId).not.toBe(identity.runId);
        await expect(store.commit(grant(key, 1))).rejects.toMatchObject({
          kind: "unavailable",
          reason: "STORE_UNVETTED",
        });
        await expect(store.commit(grant(key, 0))).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
        expect(await store.get(ref(key))).toMatchObject({ rev: 1 });
        // What was granted before is still answered, and releases go on.
        expect(await store.commit(before)).toEqual(answer);
        expect(await store.commit(commitOf([write(key, 1, "released")]))).toMatchObject({ ok: true, revs: [2] });
        const { runId } = identity;
        const vetting = { gen: identity.vetting.gen + 1, uid: "mine" };
        const unvetted = { reason: "STORE_UNVETTED" };
        await expect(store.markVetted("another", vetting)).rejects.toMatchObject(unvetted);
        // Nothing is vetted under what was not begun for it.
        await expect(store.markVetted(runId, vetting)).rejects.toMatchObject(unvetted);
        await expect(store.beginVetting("another", vetting)).rejects.toMatchObject(unvetted);
        await store.beginVetting(runId, vetting);
        expect(await store.identity()).toEqual({ ...identity, vettedRunId: "", vetting, begun: true });
        // Whoever comes later goes on under the same.
        await store.beginVetting(runId, { ...vetting, uid: "of another" });
        expect((await store.identity()).vetting).toEqual(vetting);
        await expect(store.markVetted(runId, { ...vetting, uid: "of another" })).rejects.toMatchObject(unvetted);
        await expect(store.commit(grant(key, 2))).rejects.toMatchObject(unvetted);
        await store.markVetted(runId, vetting);
        // A file stays with the one controller that it has.
        const lastVetted = store.kind === "redis" ? vetting.uid : "";
        expect(await store.identity()).toEqual({ ...identity, vettedRunId: runId, vetting, begun: true, lastVetted });
        expect(await store.commit(grant(key, 2))).toMatchObject({ ok: true, revs: [3] });
        await expect(store.markVetted(runId, identity.vetting)).rejects.toMatchObject(unvetted);
        // A higher one shuts it again.
        await store.beginVetting(runId, { gen: vetting.gen + 1, uid: "next" });
        await expect(store.commit(grant(key, 3))).rejects.toMatchObject(unvetted);
        await vet();
      });
    });

    describe("under load", () => {
      it("32 at once count to 32 exactly", async () => {
        const key = fresh("k");
        await store.commit(commitOf([write(key, 0, "0")]));
        const increment = async (through: Store): Promise<void> => {
          for (;;) {
            const now = await through.get(ref(key));
            if (now === undefined) throw new Error("gone");
            if ((await through.commit(commitOf([write(key, now.rev, `${Number(now.body) + 1}`)]))).ok) return;
          }
        };
        await Promise.all(Array.from({ length: 32 }, (_, n) => increment(n % 2 === 0 ? store : harness.other)));
        expect(await store.get(ref(key))).toMatchObject({ rev: 33, body: "32" });
      });

      it("[I1] of two that want the same records, in whatever order, one has them all and one has none", async () => {
        for (let round = 0; round < 20; round += 1) {
          const [a, b] = [fresh("k"), fresh("k")];
          const results = await Promise.all([
            store.commit(commitOf([write(a, 0, "one"), write(b, 0, "one")])),
            harness.other.commit(commitOf([write(b, 0, "two"), write(a, 0, "two")])),
          ]);
          const winner = results[0].ok ? "one" : "two";
          expect(results.map((result) => result.ok).toSorted()).toEqual([false, true]);
          expect((await store.getMany([ref(a), ref(b)])).map((record) => record?.body)).toEqual([winner, winner]);
          const loser = results.find((result) => !result.ok);
          expect(loser).toMatchObject({ conflicts: [{ rev: 1 }, { rev: 1 }] });
        }
      });

      describeStoreModel(() => store, fresh);
    });
  });
};
