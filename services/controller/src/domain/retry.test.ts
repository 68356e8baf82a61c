import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Failure, noAttempts } from "./outcome.ts";
import { defaultRetry, failedAttempt } from "./retry.ts";

const failure = (change: Partial<Failure> = {}): Failure => ({
  reason: "UNAVAILABLE",
  message: "the plugin went away",
  advice: "again",
  code: "UNAVAILABLE",
  ...change,
});
const at = (random: number) => ({ now: 1_000_000, random, retry: defaultRetry });

describe("the next try of what is owed", () => {
  it("comes after a pause that doubles up to a minute, drawn from all of it and never from its first tenth", () => {
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(fc.nat(40), random, fc.boolean(), (count, draw, blocked) => {
        const advice = blocked ? "block" : "again";
        const next = failedAttempt({ ...noAttempts, count }, failure({ advice }), at(draw));
        const step = Math.min(60_000, 500 * 2 ** (blocked ? count + 4 : count));
        expect(next.count).toBe(count + 1);
        expect(next.nextTry - 1_000_000).toBeGreaterThanOrEqual(Math.floor(step / 10));
        expect(next.nextTry - 1_000_000).toBeLessThanOrEqual(step);
      }),
    );
  });
});
