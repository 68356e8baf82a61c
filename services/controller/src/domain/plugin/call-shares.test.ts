import { describe, expect, it } from "vitest";
import { type Sharer, type Spread, sharerOf, spreadAfter } from "./call-shares.ts";

const keys = Array.from({ length: 10_000 }, (_, n) => `default/data-${n}`);
const sharers = (...asked: readonly number[]): readonly Sharer[] =>
  asked.map((each, n) => ({ id: `controller-${n}`, asked: each }));
const of = (n: number): readonly Sharer[] => sharers(...Array.from({ length: n }, () => 0));

const counts = (ids: readonly (string | undefined)[]): ReadonlyMap<string, number> => {
  const found = new Map<string, number>();
  for (const id of ids) found.set(id ?? "", (found.get(id ?? "") ?? 0) + 1);
  return found;
};

const expectBalance = (all: readonly Sharer[], ids: readonly (string | undefined)[]): void => {
  const found = counts(ids);
  expect([...found.keys()].sort()).toEqual(all.map(({ id }) => id).sort());
  for (const count of found.values()) {
    expect(count).toBeGreaterThanOrEqual((0.6 * ids.length) / all.length);
    expect(count).toBeLessThanOrEqual((1.4 * ids.length) / all.length);
  }
};

describe("who makes the call of a record", () => {
  it.each([2, 3, 4, 5])("[CS1] the keys are spread over %i", (n) => {
    expectBalance(
      of(n),
      keys.map((key) => sharerOf(of(n), key)),
    );
  });

  it.each([1, 2, 3, 4])(
    "[CS1] of %i and one more: only what is the newcomer's moves, when it comes and when it goes",
    (n) => {
      const [before, after] = [of(n), of(n + 1)];
      const moved = keys.filter((key) => sharerOf(before, key) !== sharerOf(after, key));
      expect(new Set(moved.map((key) => sharerOf(after, key)))).toEqual(new Set([`controller-${n}`]));
      expect(moved.length).toBeLessThanOrEqual((1.4 * keys.length) / (n + 1));
    },
  );

  it("[CS1] the order in which the sharers are seen makes no difference", () => {
    const all = sharers(40, 41, 39);
    for (const key of keys.slice(0, 100)) {
      expect(sharerOf([...all].reverse(), key)).toBe(sharerOf(all, key));
    }
  });

  it.each([
    { asked: [100, 100, 100], alike: true },
    { asked: [80, 120], alike: true },
    { asked: [70, 130], alike: false },
    { asked: [200, 0], alike: false },
    { asked: [120, 120, 120, 120, 20], alike: false },
    { asked: [20, 20], alike: true },
  ])("[CS2] of $asked calls: alike is $alike", ({ asked, alike }) => {
    expect(spreadAfter("unlike", sharers(...asked))).toBe(alike ? "alike" : "unlike");
  });

  it.each([
    { looks: [[200, 0]], spread: "doubted" },
    {
      looks: [
        [200, 0],
        [200, 200],
      ],
      spread: "alike",
    },
    {
      looks: [
        [200, 0],
        [200, 0],
      ],
      spread: "unlike",
    },
    {
      looks: [
        [200, 0],
        [200, 0],
        [200, 200],
      ],
      spread: "alike",
    },
    { looks: [[39, 0]], spread: "alike" },
    { looks: [[19, 19], [0, 0], []], spread: "alike" },
    {
      looks: [
        [200, 0],
        [200, 0],
        [39, 0],
      ],
      spread: "unlike",
    },
  ] as const)("[CS3] alike, and then $looks: $spread", ({ looks, spread }) => {
    const first: Spread = "alike";
    expect(looks.reduce<Spread>((before, asked) => spreadAfter(before, sharers(...asked)), first)).toBe(spread);
  });

  it("without sharers there is none", () => expect(sharerOf([], "default/data")).toBeUndefined());
});
