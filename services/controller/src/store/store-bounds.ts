/** What the controller relies on when it bounds how many records carry an entry: the slots of a node are kept by it. */
import { describe, expect, it } from "vitest";
import type { Store } from "../ports.ts";
import { commitOf, keysOf, ref, write } from "./test-commits.ts";

export interface BoundsHarness {
  readonly store: () => Store;
  readonly other: () => Store;
  readonly fresh: (what: string) => string;
}

export const describeStoreBounds = ({ store, other, fresh }: BoundsHarness): void => {
  describe("a commit that bounds an entry", () => {
    it("passes up to the bound, and beyond it is refused whole", async () => {
      const [value, a, b, c] = [fresh("v"), fresh("k"), fresh("k"), fresh("k")];
      const entry = { index: "slot", value };
      const indexes = [{ index: "n", value }, entry];
      const atMost = [{ entries: [entry], count: 2 }];
      const first = commitOf([write(a, 0, "1", { indexes })], { atMost });
      const answer = await store().commit(first);
      expect(answer).toMatchObject({ ok: true });
      expect(await other().commit(commitOf([write(b, 0, "1", { indexes })], { atMost }))).toMatchObject({ ok: true });
      const head = await store().head();
      const events = [{ type: "volume", ref: ref(c), body: "x" }];
      const refused = commitOf([write(c, 0, "1", { indexes }), write(fresh("k"), 0, "1")], { atMost, events });
      expect(await store().commit(refused)).toEqual({ ok: false, conflicts: [], full: [entry] });
      expect(await store().head()).toBe(head);
      expect(await keysOf(store(), "slot", value)).toEqual([a, b].toSorted());
      // A repeat is answered as before, whatever came since.
      expect(await store().commit(first)).toEqual(answer);
      // Revisions first: whoever is late has to read anyway.
      const late = commitOf([write(a, 7, "late"), write(c, 0, "1", { indexes })], { atMost });
      expect(await store().commit(late)).toEqual({ ok: false, conflicts: [{ ref: ref(a), rev: 1 }] });
    });

    it("counts what it adds and takes together, and never refuses what adds nothing", async () => {
      const [value, a, b, c, d] = [fresh("v"), fresh("k"), fresh("k"), fresh("k"), fresh("k")];
      const entry = { index: "slot", value };
      const indexes = [entry];
      const atMost = [{ entries: [entry], count: 1 }];
      await store().commit(commitOf([write(a, 0, "1", { indexes }), write(b, 0, "1", { indexes })]));
      // More than the bound already: what is there may be written, moved and taken, and nothing be added.
      expect(await store().commit(commitOf([write(a, 1, "2", { indexes })], { atMost }))).toMatchObject({ ok: true });
      const move = commitOf([write(a, 2, "3"), write(c, 0, "1", { indexes })], { atMost });
      expect(await store().commit(move)).toMatchObject({ ok: true });
      const one = commitOf([write(d, 0, "1", { indexes })], { atMost });
      expect(await store().commit(one)).toEqual({ ok: false, conflicts: [], full: [entry] });
      expect(await store().commit(commitOf([write(b, 1, null)], { atMost }))).toMatchObject({ ok: true });
      expect(await store().commit(commitOf([write(c, 1, "2")], { atMost }))).toMatchObject({ ok: true });
      expect(await store().commit(commitOf([write(d, 0, "1", { indexes })], { atMost }))).toMatchObject({ ok: true });
    });

    it("names every entry that is full, and no other", async () => {
      const [full, free, none] = [fresh("v"), fresh("v"), fresh("v")].map((value) => ({ index: "slot", value }));
      if (full === undefined || free === undefined || none === undefined) throw new Error("three entries");
      const atMost = [
        { entries: [free], count: 1 },
        { entries: [full], count: 0 },
        { entries: [none], count: 0 },
      ];
      const commit = commitOf([write(fresh("k"), 0, "1", { indexes: [full, free] })], { atMost });
      expect(await store().commit(commit)).toEqual({ ok: false, conflicts: [], full: [full] });
    });

    it("does not take an entry for another one that contains it", async () => {
      const value = fresh("v");
      const [short, long] = [
        { index: "slot", value },
        { index: "slot", value: `${value}/x` },
      ] as const;
      await store().commit(commitOf([write(fresh("k"), 0, "1", { indexes: [long] })]));
      const atMost = [{ entries: [short], count: 1 }];
      const commit = commitOf([write(fresh("k"), 0, "1", { indexes: [short, long] })], { atMost });
      expect(await store().commit(commit)).toMatchObject({ ok: true });
      expect(await store().count([short, long])).toEqual([1, 2]);
    });

    it("counts entries of one bound together, and names all of them when it is full", async () => {
      const [a, b, beside] = [fresh("v"), fresh("v"), fresh("v")].map((value) => ({ index: "slot", value }));
      if (a === undefined || b === undefined || beside === undefined) throw new Error("three entries");
      const atMost = [{ entries: [a, b], count: 2 }];
      const [one, two] = [fresh("k"), fresh("k")];
      const make = (key: string, entry: typeof a) =>
        commitOf([write(key, 0, "1", { indexes: [entry, beside] })], { atMost });
      expect(await store().commit(make(one, a))).toMatchObject({ ok: true });
      expect(await other().commit(make(two, b))).toMatchObject({ ok: true });
      for (const entry of [a, b])
        expect(await store().commit(make(fresh("k"), entry))).toEqual({ ok: false, conflicts: [], full: [a, b] });
      // From one to the other is nothing more, and what is beyond the bound already may be written.
      const lower = [{ entries: [a, b], count: 1 }];
      const moved = commitOf([write(one, 1, "2", { indexes: [b] })], { atMost: lower });
      expect(await store().commit(moved)).toMatchObject({ ok: true });
      const both = commitOf([write(fresh("k"), 0, "1", { indexes: [a] }), write(two, 1, null)], { atMost: lower });
      expect(await store().commit(both)).toMatchObject({ ok: true });
      expect(await store().commit(make(fresh("k"), a))).toMatchObject({ ok: false, full: [a, b] });
    });

    it("lets no two that race have the last place, in one process or in two", async () => {
      for (let round = 0; round < 10; round += 1) {
        const entry = { index: "slot", value: fresh("v") };
        const take = (at: Store) =>
          at.commit(
            commitOf([write(fresh("k"), 0, "1", { indexes: [entry] })], { atMost: [{ entries: [entry], count: 3 }] }),
          );
        const answers = await Promise.all([store(), other(), store(), other(), store(), other()].map(take));
        expect(answers.filter(({ ok }) => ok)).toHaveLength(3);
        expect(await store().count([entry])).toEqual([3]);
      }
    });

    it("lets none that race over entries of one bound be beyond it", async () => {
      for (let round = 0; round < 10; round += 1) {
        const entries = [fresh("v"), fresh("v")].map((value) => ({ index: "slot", value }));
        const take = (at: Store, nth: number) =>
          at.commit(
            commitOf([write(fresh("k"), 0, "1", { indexes: entries.slice(nth % 2, (nth % 2) + 1) })], {
              atMost: [{ entries, count: 3 }],
            }),
          );
        const racing = [store(), store(), other(), other(), store(), other()];
        const answers = await Promise.all(racing.map(take));
        expect(answers.filter(({ ok }) => ok)).toHaveLength(3);
        const [a = 0, b = 0] = await store().count(entries);
        expect(a + b).toBe(3);
      }
    });

    it("counts an entry that many carry, and one that nobody does", async () => {
      const entry = { index: "slot", value: fresh("v") };
      const keys = Array.from({ length: 300 }, (_, n) => `${entry.value}-${String(n).padStart(3, "0")}`);
      await store().commit(commitOf(keys.map((key) => write(key, 0, "1", { indexes: [entry] }))));
      expect(await store().count([entry, { index: "slot", value: fresh("v") }])).toEqual([300, 0]);
      const more = (count: number) =>
        commitOf([write(fresh("k"), 0, "1", { indexes: [entry] })], { atMost: [{ entries: [entry], count }] });
      expect(await store().commit(more(300))).toMatchObject({ ok: false, full: [entry] });
      expect(await store().commit(more(301))).toMatchObject({ ok: true });
      await store().commit(commitOf(keys.slice(0, 250).map((key) => write(key, 1, null))));
      expect(await store().count([entry])).toEqual([51]);
      expect(await store().count([])).toEqual([]);
    });
  });
};
