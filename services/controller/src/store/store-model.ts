/**
 * The store against the plainest thing that could be one: a map with revisions. Steps of any kind in any order; after each the store
 * answers what the model answers, and at the end everything that can be read is as the model has it.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { sample } from "../../../../test/support/full.ts";
import type { Commit, CommitResult, RecordWrite } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import { commitOf, keysOf, ref, write } from "./test-commits.ts";

interface Held {
  readonly rev: number;
  /** undefined: removed. */
  readonly write: RecordWrite | undefined;
}

interface Model {
  readonly records: Map<string, Held>;
  readonly done: { readonly commit: Commit; readonly result: CommitResult }[];
}

interface Real {
  readonly store: Store;
  /** Parts this run from the others that use the same store. */
  readonly base: string;
}

const slots = ["a", "b", "c/d", "e"] as const;
const visible = (held: Held | undefined): number => (held?.write === undefined ? 0 : held.rev);

/** The contract in a dozen lines. */
const applied = (model: Model, commit: Commit): CommitResult | "as before" => {
  const before = model.done.find((it) => it.commit.opId === commit.opId);
  if (before !== undefined) return before.result;
  const conflicts = commit.writes
    .map((one) => ({ ref: one.ref, rev: visible(model.records.get(one.ref.key)), expected: one.expectedRev }))
    .filter(({ rev, expected }) => rev !== expected)
    .map(({ ref: of, rev }) => ({ ref: of, rev }));
  if (conflicts.length > 0) return { ok: false, conflicts };
  for (const one of commit.writes) {
    const rev = (model.records.get(one.ref.key)?.rev ?? 0) + 1;
    model.records.set(one.ref.key, { rev, write: one.body === null ? undefined : one });
  }
  return "as before";
};

const step = fc.record({
  writes: fc.uniqueArray(
    fc.record({
      slot: fc.constantFrom(...slots),
      revOff: fc.oneof(
        { weight: 6, arbitrary: fc.constant(0) },
        { weight: 1, arbitrary: fc.integer({ min: -2, max: 2 }) },
      ),
      remove: fc.boolean(),
      indexes: fc.subarray(["x", "y", "z"]),
      due: fc.subarray(["p", "q"]),
      at: fc.integer({ min: 0, max: 50 }),
    }),
    { selector: (it) => it.slot, minLength: 1, maxLength: 4 },
  ),
});

const commitCommand = (
  chosen: typeof step extends fc.Arbitrary<infer T> ? T : never,
): fc.AsyncCommand<Model, Real> => ({
  check: () => true,
  async run(model, { store, base }) {
    const commit = commitOf(
      chosen.writes.map(({ slot, revOff, remove, indexes, due, at }) => {
        const key = `${base}/${slot}`;
        const rev = Math.max(0, visible(model.records.get(key)) + revOff);
        return write(key, rev, remove ? null : `${slot}${at}`, {
          indexes: indexes.map((index) => ({ index, value: base })),
          due: due.map((queue) => ({ queue: `${base}-${queue}`, at })),
        });
      }),
    );
    const expected = applied(model, commit);
    const result = await store.commit(commit);
    if (expected !== "as before") return expect(result).toEqual(expected);
    expect(result).toMatchObject({ ok: true, revs: commit.writes.map((one) => model.records.get(one.ref.key)?.rev) });
    model.done.push({ commit, result });
  },
  toString: () => `commit ${JSON.stringify(chosen.writes)}`,
});

/** An answer that was lost: the same again, if so few others came since that it has to be known. */
const repeatCommand = (back: number): fc.AsyncCommand<Model, Real> => ({
  check: ({ done }) => done.length > back,
  async run({ done }, { store }) {
    const before = done.at(-1 - back);
    if (before !== undefined) expect(await store.commit(before.commit)).toEqual(before.result);
  },
  toString: () => `repeat the last but ${back}`,
});

const readCommand = (slot: (typeof slots)[number]): fc.AsyncCommand<Model, Real> => ({
  check: () => true,
  async run(model, { store, base }) {
    const key = `${base}/${slot}`;
    const held = model.records.get(key);
    const expected = held?.write === undefined ? undefined : { ref: ref(key), rev: held.rev, body: held.write.body };
    expect(await store.get(ref(key))).toEqual(expected);
  },
  toString: () => `read ${slot}`,
});

/** Every index and queue says what the records say. */
const placesCommand = (limit: number): fc.AsyncCommand<Model, Real> => ({
  check: () => true,
  async run({ records }, { store, base }) {
    const live = [...records.values()].flatMap((held) => (held.write === undefined ? [] : [held.write]));
    for (const index of ["x", "y", "z"]) {
      const keys = live.filter((it) => it.indexes.some((entry) => entry.index === index)).map((it) => it.ref.key);
      expect(await keysOf(store, index, base, limit)).toEqual(keys.toSorted());
    }
    for (const queue of [`${base}-p`, `${base}-q`]) {
      const entries = live.flatMap((it) =>
        it.due.filter((entry) => entry.queue === queue).map(({ at }) => ({ queue, ref: it.ref, at })),
      );
      const sorted = entries.toSorted((a, b) => a.at - b.at || (a.ref.key < b.ref.key ? -1 : 1));
      expect(await store.due(queue, 1000, 100)).toEqual(sorted);
      expect(await store.nextDue(queue)).toBe(sorted[0]?.at);
    }
  },
  toString: () => `look at all places, ${limit} a page`,
});

const script = fc.commands(
  [
    step.map(commitCommand),
    step.map(commitCommand),
    fc.nat(6).map(repeatCommand),
    fc.constantFrom(...slots).map(readCommand),
    fc.constantFrom(1, 2, 50).map(placesCommand),
  ],
  { maxCommands: 40 },
);

export const describeStoreModel = (store: () => Store, fresh: (what: string) => string): void => {
  it(`behaves as a map with revisions, under ${sample(1000, 40)} sequences of steps`, {
    timeout: 300_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(script, async (commands) => {
        const real = { store: store(), base: fresh("m") };
        const model: Model = { records: new Map(), done: [] };
        await fc.asyncModelRun(() => ({ model, real }), commands);
        await placesCommand(3).run(model, real);
      }),
      { numRuns: sample(1000, 40) },
    );
  });
};
