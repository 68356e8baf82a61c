/** What the controller relies on when its calls carry the order of the commits that stored them. */
import { describe, expect, it } from "vitest";
import type { Commit } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import type { BoundsHarness } from "./store-bounds.ts";
import { commitOf, ref, write } from "./test-commits.ts";
import { vetAnew } from "./vet-anew.ts";

export const describeStoreOrder = ({ store, other, fresh }: BoundsHarness): void => {
  describe("the order of a commit", () => {
    const orderOf = async (of: Store, commit: Commit) => {
      const result = await of.commit(commit);
      if (!result.ok) throw new Error("it was refused");
      return result.order;
    };

    it("is above that of each commit before, of whatever record, with and without events, by whichever opener", async () => {
      const { vetting } = await store().identity();
      const [a, b] = [fresh("k"), fresh("k")];
      const events = [{ type: "volume", ref: ref(b), body: "x" }];
      const commits = [
        commitOf([write(a, 0, "1")]),
        commitOf([write(b, 0, "1")], { events }),
        commitOf([write(a, 1, "2"), write(b, 1, "2")]),
        commitOf([write(b, 2, null)]),
        // Its revisions start anew with the name, and its place does not.
        commitOf([write(b, 0, "3")], { events }),
      ];
      const orders = [];
      for (const [at, commit] of commits.entries())
        orders.push(await orderOf(at % 2 === 0 ? store() : other(), commit));
      const sequences = orders.map(({ sequence }) => sequence);
      expect(sequences.every(Number.isSafeInteger)).toBe(true);
      expect(sequences).toEqual([...new Set(sequences)].toSorted((x, y) => x - y));
      expect(new Set(orders.map((order) => order.gen))).toEqual(new Set([vetting.gen]));
    });

    it("is told again to a repeat, and belongs to one commit alone under contention", async () => {
      const commit = commitOf([write(fresh("k"), 0, "1")]);
      const order = await orderOf(store(), commit);
      const many = Array.from({ length: 20 }, () => commitOf([write(fresh("k"), 0, "1")]));
      const orders = await Promise.all(many.map((one, at) => orderOf(at % 2 === 0 ? store() : other(), one)));
      expect(await orderOf(other(), commit)).toEqual(order);
      expect(new Set(orders.map(({ sequence }) => sequence)).size).toBe(many.length);
    });

    it("has the generation of the commit, and a vetting gives no number anew", async () => {
      const key = fresh("k");
      const before = await orderOf(store(), commitOf([write(key, 0, "1")]));
      await vetAnew(store());
      const after = await orderOf(store(), commitOf([write(key, 1, "2")]));
      expect(after.gen).toBe(before.gen + 1);
      expect(after.sequence).toBeGreaterThan(before.sequence);
    });
  });
};
