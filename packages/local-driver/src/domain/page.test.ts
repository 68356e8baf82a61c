import fc from "fast-check";
import { expect, test } from "vitest";
import { DriverError } from "./driver-error.ts";
import { type Listed, pageOf } from "./page.ts";

const entry: fc.Arbitrary<Listed> = fc.record({
  id: fc.uuid(),
  // Few moments, so that many are made in the same.
  createdAt: fc.integer({ min: 0, max: 3 }).map((ms) => new Date(ms).toISOString()),
});
const entries = fc.uniqueArray(entry, { selector: ({ id }) => id, maxLength: 30 });

/** Pages until the end; `between` may change the list after each page. */
function walk(start: readonly Listed[], maxEntries: number, between: (all: readonly Listed[]) => readonly Listed[]) {
  let all = start;
  const seen: string[] = [];
  for (let startingToken = ""; ; ) {
    const page = pageOf("volume", all, { maxEntries, startingToken });
    expect(page.entries.length).toBeLessThanOrEqual(maxEntries);
    seen.push(...page.entries.map(({ id }) => id));
    if (page.nextToken === "") return seen;
    startingToken = page.nextToken;
    all = between(all);
  }
}

test("pages of any size together are the whole list, each entry once, whatever the order it comes in", () => {
  fc.assert(
    fc.property(entries, fc.integer({ min: 1, max: 7 }), (all, maxEntries) => {
      const whole = pageOf("volume", all, { maxEntries: 0, startingToken: "" });
      expect(whole.nextToken).toBe("");
      expect(whole.entries.map(({ id }) => id).toSorted()).toEqual(all.map(({ id }) => id).toSorted());
      expect(walk(all, maxEntries, (same) => same.toReversed())).toEqual(whole.entries.map(({ id }) => id));
    }),
  );
});

test("deletions between pages, of the last entry given too, skip and repeat nothing that stays", () => {
  fc.assert(
    fc.property(entries, fc.integer({ min: 1, max: 5 }), fc.infiniteStream(fc.nat(30)), (all, maxEntries, picks) => {
      const deleted = new Set<string>();
      const seen = walk(all, maxEntries, (left) => {
        const victim = left[(picks.next().value ?? 0) % Math.max(1, left.length)];
        if (victim !== undefined) deleted.add(victim.id);
        return left.filter(({ id }) => id !== victim?.id);
      });
      expect(new Set(seen).size).toBe(seen.length);
      for (const { id } of all) if (!deleted.has(id)) expect(seen).toContain(id);
    }),
  );
});

test("what is made between pages comes on a later one", () => {
  const made = (n: number): Listed => ({ id: `${9 - n}`, createdAt: new Date(n).toISOString() });
  let n = 3;
  const seen = walk([made(0), made(1), made(2), made(3)], 2, (all) => {
    n += 1;
    return n > 5 ? all : [...all, made(n)];
  });
  expect(seen).toEqual(["9", "8", "7", "6", "5", "4"]);
});

const codeOfToken = (startingToken: string): string => {
  try {
    pageOf("volume", [], { maxEntries: 0, startingToken });
  } catch (error) {
    if (error instanceof DriverError) return error.code;
    throw error;
  }
  return "OK";
};

test("a token that is none of this list is ABORTED", () => {
  const list = [1, 2].map((n) => ({ id: `${n}`, createdAt: "2026-01-01T00:00:00.000Z" }));
  const { nextToken } = pageOf("snapshot", list, { maxEntries: 1, startingToken: "" });
  expect(nextToken).not.toBe("");
  expect(pageOf("snapshot", list, { maxEntries: 1, startingToken: nextToken }).entries).toEqual([list[1]]);
  expect(codeOfToken(nextToken)).toBe("ABORTED");
  expect(codeOfToken(` ${nextToken}`)).toBe("ABORTED");
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), (text) => {
      expect(codeOfToken(text)).toBe("ABORTED");
    }),
  );
});
