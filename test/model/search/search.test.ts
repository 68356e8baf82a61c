import { describe, expect, it, test } from "vitest";
import { canonicalText } from "./canonical-text.ts";
import { createParts } from "./parts.ts";
import { createRowSet } from "./row-set.ts";
import { type Go, NotYetKnown, type State, search, type World } from "./search.ts";

type Phase = "idle" | "waits" | "inside";
interface Worker {
  readonly phase: Phase;
}
interface Lock {
  readonly heldBy?: string;
}

const swapped = new Map([
  ["w1", "w2"],
  ["w2", "w1"],
]);

/** Two workers and a lock: as it should be, without the lock, and with a lock that a worker may keep for ever. */
const workers = (changes: { readonly locks?: boolean; readonly forgets?: boolean; readonly alike?: boolean } = {}) => {
  const { locks = true, forgets = false, alike = true } = changes;
  const worker = (state: State, at: number) => state[at] as Worker;
  const world: World = {
    initial: [{ phase: "idle" }, { phase: "idle" }, {}],
    symmetries: alike ? [{ names: swapped, places: [1, 0, 2] }] : [],
    next(state, go) {
      const lock = state[2] as Lock;
      for (const at of [0, 1]) {
        const name = `w${at + 1}`;
        const to = (phase: Phase, more: Record<number, object> = {}): void =>
          go(phase, name, { [at]: { phase }, ...more });
        const { phase } = worker(state, at);
        if (phase === "idle") to("waits");
        if (phase === "waits" && (!locks || lock.heldBy === undefined)) to("inside", { 2: { heldBy: name } });
        if (phase === "inside") to("idle", { 2: {} });
        if (phase === "inside" && forgets) to("idle");
      }
    },
    violated: (state) => ([0, 1].every((at) => worker(state, at).phase === "inside") ? "[T1] two inside" : undefined),
    isClean: (state) => [0, 1].every((at) => worker(state, at).phase === "idle") && !("heldBy" in (state[2] ?? {})),
  };
  return world;
};

const told = (steps: readonly { readonly action: string; readonly detail: string }[] = []): readonly string[] =>
  steps.map(({ action, detail }) => `${detail} ${action}`);

describe("a search", () => {
  it("S1 sees each state once, and one for all that differ by their names", async () => {
    const all = await search(workers({ alike: false }));
    const least = await search(workers());
    expect(all).toMatchObject({ states: 8, exhausted: true });
    expect(least).toMatchObject({ states: 5, exhausted: true, depth: 3 });
    expect(least.violation).toBeUndefined();
    expect([...least.actions.keys()].sort()).toEqual(["idle", "inside", "waits"]);
  });

  it("S2 ends at a violation, with a shortest schedule in names that stay the same", async () => {
    const { violation, exhausted } = await search(workers({ locks: false }));
    expect(exhausted).toBe(false);
    expect(violation?.what).toBe("[T1] two inside");
    const steps = told(violation?.schedule);
    expect(steps).toHaveLength(4);
    expect([...steps].sort()).toEqual(["w1 inside", "w1 waits", "w2 inside", "w2 waits"]);
  });

  it("S3 finds a state from which no clean one is reached", async () => {
    const { violation } = await search(workers({ forgets: true }));
    expect(violation?.what).toContain("[I6]");
    expect(told(violation?.schedule).at(-1)).toMatch(/idle$/);
  });

  it("S4 waits for an answer that is not known yet", async () => {
    const world = workers();
    let known = false;
    const next = (state: State, go: Go, fresh: string): void => {
      if (!known)
        throw new NotYetKnown(
          Promise.resolve().then(() => {
            known = true;
          }),
        );
      world.next(state, go, fresh);
    };
    expect(await search({ ...world, next })).toMatchObject({ states: 5, exhausted: true });
  });

  it("stops at its bound on states, and says that the space is not exhausted", async () => {
    expect(await search(workers({ alike: false }), { mostStates: 4 })).toMatchObject({ exhausted: false });
  });

  it("P3 ends although marks grow for ever: a counter of which only the last two values count", async () => {
    const world: World = {
      initial: [{ seen: ["#0", "#0"] }],
      symmetries: [],
      next: (state, go, fresh) => {
        const { seen } = state[0] as { readonly seen: readonly string[] };
        go("count", fresh, { 0: { seen: [seen[1], fresh] } });
      },
      violated: () => undefined,
      isClean: () => true,
    };
    expect(await search(world)).toMatchObject({ states: 2, exhausted: true });
  });
});

describe("parts", () => {
  it("P1 have one number for one meaning", () => {
    const parts = createParts([swapped]);
    expect(parts.idOf({ a: 1, b: { c: "w1", d: undefined } })).toBe(parts.idOf({ b: { c: "w1" }, a: 1 }));
    expect(parts.size()).toBe(1);
    expect(parts.partOf(parts.renamed(0, 0))).toEqual({ a: 1, b: { c: "w2" } });
    expect(parts.renamed(parts.renamed(0, 0), 0)).toBe(0);
  });

  it("P3 rank their marks within those of the state", () => {
    const parts = createParts([]);
    const id = parts.idOf({ of: "#4", or: "#1", not: "4" });
    expect(parts.marksOf(id)).toBe(0b10010);
    expect(parts.partOf(parts.ranked(id, 0b11010))).toEqual({ of: "#2", or: "#0", not: "4" });
  });

  test("a text has its keys in order", () => {
    expect(canonicalText({ b: [1, { d: 1, c: null }], a: "x" })).toBe('{"a":"x","b":[1,{"c":null,"d":1}]}');
  });
});

describe("a set of rows", () => {
  it("R1 tells all rows apart, also when it grows", () => {
    const rows = createRowSet(2);
    const count = 200_000;
    const row = (n: number): Uint32Array => Uint32Array.of(n % 512, Math.floor(n / 512));
    let added = 0;
    for (let n = 0; n < count; n += 1) if (rows.add(row(n)).isNew) added += 1;
    expect(added).toBe(count);
    for (let n = 0; n < count; n += 997) expect(rows.add(row(n))).toEqual({ at: n, isNew: false });
    const read = new Uint32Array(2);
    rows.read(199_999, read);
    expect(read).toEqual(row(199_999));
    expect(rows.size()).toBe(count);
  });
});
