import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Candidate, chooseInstance } from "./choose-instance.ts";

const local = (rank: number, restsUntil = 0): Candidate => ({ id: `l${rank}`, local: true, rank, restsUntil });
const remote = (rank: number, restsUntil = 0): Candidate => ({ id: `r${rank}`, local: false, rank, restsUntil });
const choose = (candidates: readonly Candidate[], last?: string) => chooseInstance(candidates, last, 100)?.id;

describe("which instance is called", () => {
  test("J2: one beside the controller before those on nodes, the newest first; of those on nodes always the same one", () => {
    expect(choose([])).toBeUndefined();
    expect(choose([remote(0), local(0), local(1)])).toBe("l1");
    expect(choose([remote(1), remote(0)])).toBe("r0");
    expect(choose([remote(0), remote(1)], "r1")).toBe("r1");
    expect(choose([remote(0), remote(1), local(0)], "r1")).toBe("l0");
  });

  test("J3: one that failed rests, and the next one takes the calls; when all rest, the one that rests no longer", () => {
    expect(choose([local(1, 200), local(0)])).toBe("l0");
    expect(choose([local(1, 200), remote(0)])).toBe("r0");
    expect(choose([remote(0), remote(1, 101)], "r1")).toBe("r0");
    expect(choose([local(0, 300), remote(0, 200), remote(1, 250)])).toBe("r0");
    expect(choose([local(0, 99), remote(0)])).toBe("l0");
  });

  test("never depends on the order in which they are listed, and is one that rests only when all do", () => {
    const candidate = fc.record({ local: fc.boolean(), rank: fc.nat(5), restsUntil: fc.nat(200) });
    const some = fc.uniqueArray(candidate, { selector: ({ local: here, rank }) => `${here} ${rank}`, maxLength: 6 });
    fc.assert(
      fc.property(some, fc.nat(11), fc.nat(), (list, lastAt, turn) => {
        const all = list.map((one) => ({ ...one, id: `${one.local ? "l" : "r"}${one.rank}` }));
        const last = all[lastAt]?.id;
        const turned = all.length === 0 ? [] : [...all.slice(turn % all.length), ...all.slice(0, turn % all.length)];
        const chosen = chooseInstance(all, last, 100);
        expect(chooseInstance(turned, last, 100)?.id).toBe(chosen?.id);
        if (chosen !== undefined && chosen.restsUntil > 100)
          expect(all.every(({ restsUntil }) => restsUntil >= chosen.restsUntil)).toBe(true);
      }),
    );
  });
});
