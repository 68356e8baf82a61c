import fc from "fast-check";
import { expect, test } from "vitest";
import { backoffDelay, createBackoff } from "./backoff.ts";

const unit = fc.double({ min: 0, max: 0.999999999, noNaN: true });

test("full jitter: between nothing and the ceiling, which doubles up to the cap", () => {
  fc.assert(
    fc.property(
      fc.nat(2000),
      fc.integer({ min: 1, max: 5000 }),
      fc.integer({ min: 1, max: 600_000 }),
      unit,
      (n, base, cap, r) => {
        const delay = backoffDelay(n, { baseMs: base, capMs: cap }, r);
        expect(delay).toBeGreaterThanOrEqual(0);
        expect(delay).toBeLessThanOrEqual(cap);
        expect(delay).toBeLessThanOrEqual(base * 2 ** n);
        expect(Number.isInteger(delay)).toBe(true);
      },
    ),
  );
  expect(backoffDelay(3, { baseMs: 500, capMs: 60_000 }, 0.9999999)).toBe(4000);
  expect(backoffDelay(30, { baseMs: 500, capMs: 60_000 }, 0.9999999)).toBe(60_000);
  expect(backoffDelay(5, { baseMs: 500, capMs: 60_000 }, 0)).toBe(0);
});

test("a backoff grows to its cap and never beyond, however often it is asked", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1000 }),
      fc.integer({ min: 1000, max: 100_000 }),
      unit,
      (baseMs, capMs, r) => {
        const backoff = createBackoff({ baseMs, capMs, random: () => r });
        let before = 0;
        for (let i = 0; i < 300; i += 1) {
          const delay = backoff.next();
          expect(delay).toBeGreaterThanOrEqual(before);
          expect(delay).toBeLessThanOrEqual(capMs);
          before = delay;
        }
        expect(before).toBe(Math.round(capMs * (0.5 + 0.5 * r)));
      },
    ),
  );
});

test("only an attempt that held long enough starts over", () => {
  const backoff = createBackoff({ baseMs: 100, capMs: 10_000, random: () => 0, resetAfterMs: 5000 });
  expect([backoff.next(), backoff.next(), backoff.next()]).toEqual([50, 100, 200]);
  backoff.held(4999);
  expect(backoff.next()).toBe(400);
  backoff.held(5000);
  expect(backoff.next()).toBe(50);
  expect(backoff.next()).toBe(100);
  backoff.reset();
  expect(backoff.next()).toBe(50);
});

test("the least share of a step is waited whatever is drawn, and the rest as drawn", () => {
  fc.assert(
    fc.property(fc.nat(40), unit, unit, (n, least, r) => {
      const delay = backoffDelay(n, { baseMs: 500, capMs: 60_000, least }, r);
      const step = Math.min(60_000, 500 * 2 ** n);
      expect(delay).toBeGreaterThanOrEqual(Math.floor(step * least));
      expect(delay).toBeLessThanOrEqual(step);
    }),
  );
  expect(backoffDelay(1, { baseMs: 500, capMs: 60_000, least: 0.1 }, 0.5)).toBe(550);
});
