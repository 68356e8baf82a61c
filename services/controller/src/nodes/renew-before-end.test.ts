import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { expect, test } from "vitest";
import { renewBeforeEnd } from "./renew-before-end.ts";

const minuteMs = 60_000;

const asked = (leftMs: number) => {
  const clock = createManualClock();
  const begin = clock.now();
  const told: (readonly [at: number, jitterMs: number])[] = [];
  const stop = renewBeforeEnd({
    clock,
    notAfter: begin + leftMs,
    reconnect: (_reason, jitterMs) => told.push([clock.now() - begin, jitterMs]),
  });
  return { clock, told, stop };
};

test("an agent is asked for another stream five minutes before a certificate ends, once, and may take a minute", async () => {
  const { clock, told } = asked(24 * 60 * minuteMs);
  await clock.advance((24 * 60 - 5) * minuteMs - 1);
  expect(told).toEqual([]);
  await clock.advance(10 * minuteMs);
  expect(told).toEqual([[(24 * 60 - 5) * minuteMs, minuteMs]]);
});

test("one that comes back with the same certificate is asked at half of what is left, and near the end not at all", async () => {
  const { clock, told } = asked(5 * minuteMs);
  await clock.advance(5 * minuteMs);
  expect(told).toEqual([[2.5 * minuteMs, 37_500]]);
  const late = asked(1_900);
  await late.clock.advance(minuteMs);
  expect(late.told).toEqual([]);
});

test("the jitter is whole milliseconds, whatever is left", async () => {
  const { clock, told } = asked(5 * minuteMs + 3);
  await clock.advance(5 * minuteMs);
  expect(told.map(([, jitterMs]) => jitterMs)).toEqual([37_500]);
});

test("a stream that has ended is asked nothing", async () => {
  const { clock, told, stop } = asked(60 * minuteMs);
  stop();
  await clock.advance(60 * minuteMs);
  expect(told).toEqual([]);
  expect(clock.pending()).toBe(0);
});
