import { expect, test } from "vitest";
import { createCallRates } from "./call-rates.ts";

const takes = (rates: ReturnType<typeof createCallRates>, caller: string, count: number, now: number): number =>
  Array.from({ length: count }, () => rates.take(caller, now)).filter(Boolean).length;

test("a caller has the calls of two seconds at once, and then those of each second", () => {
  const rates = createCallRates(10);
  expect(takes(rates, "scheduler/a", 50, 0)).toBe(20);
  expect(takes(rates, "scheduler/a", 50, 500)).toBe(5);
  expect(takes(rates, "scheduler/a", 50, 60_000)).toBe(20);
});

test("one caller takes nothing from another", () => {
  const rates = createCallRates(10);
  takes(rates, "scheduler/a", 50, 0);
  expect(takes(rates, "scheduler/b", 50, 0)).toBe(20);
});

test("callers that came once are forgotten", () => {
  const rates = createCallRates(10);
  for (let n = 0; n < 1_000; n += 1) rates.take(`anonymous ${n}`, 0);
  expect(rates.size()).toBe(1_000);
  takes(rates, "scheduler/a", 24, 10_000);
  expect(rates.size()).toBe(1);
});

test("a clock that goes back gives nothing and takes nothing", () => {
  const rates = createCallRates(10);
  takes(rates, "scheduler/a", 50, 10_000);
  expect(takes(rates, "scheduler/a", 5, 0)).toBe(0);
});
