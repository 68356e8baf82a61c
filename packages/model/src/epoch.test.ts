import fc from "fast-check";
import { expect, test } from "vitest";
import { compareEpochs, type Epoch, epochBelow, newerEpoch, nextEpoch, oldestEpoch, showEpoch } from "./epoch.ts";

const someEpoch: fc.Arbitrary<Epoch> = fc.record({ gen: fc.nat(3), ctr: fc.nat(3) });

test("the generation comes before the counter", () => {
  expect(compareEpochs({ gen: 2, ctr: 0 }, { gen: 1, ctr: 9 })).toBeGreaterThan(0);
  expect(compareEpochs({ gen: 2, ctr: 1 }, { gen: 2, ctr: 1 })).toBe(0);
  expect(showEpoch({ gen: 2, ctr: 17 })).toBe("2.17");
});

test("the next epoch is above the last, and of the generation of the store at least", () => {
  fc.assert(
    fc.property(someEpoch, fc.nat(3), (last, gen) => {
      const next = nextEpoch(last, gen);
      return compareEpochs(next, last) > 0 && next.gen >= gen;
    }),
  );
});

test("the epoch below is the greatest that is lower; nothing is below the first", () => {
  expect(epochBelow({ gen: 0, ctr: 0 })).toEqual({ gen: 0, ctr: 0 });
  expect(epochBelow({ gen: 1, ctr: 0 })).toEqual({ gen: 0, ctr: Number.MAX_SAFE_INTEGER });
  expect(epochBelow({ gen: 1, ctr: 4 })).toEqual({ gen: 1, ctr: 3 });
});

test("of several epochs the oldest and the newer are among them", () => {
  expect(oldestEpoch([])).toBeUndefined();
  fc.assert(
    fc.property(fc.array(someEpoch, { minLength: 1 }), (epochs) => {
      const sorted = epochs.toSorted(compareEpochs);
      expect(oldestEpoch(epochs)).toEqual(sorted[0]);
      expect(epochs.reduce(newerEpoch)).toEqual(sorted.at(-1));
    }),
  );
});
