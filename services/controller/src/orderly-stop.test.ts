import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { expect, test } from "vitest";
import { createOrderlyStop, endOfCallsMs } from "./orderly-stop.ts";

const build = () => {
  const [work, clock, calls] = [new AbortController(), createManualClock(), Promise.withResolvers<void>()];
  const { taking, stop } = createOrderlyStop(work, clock);
  return {
    work,
    clock,
    calls,
    taking,
    stopped: stop(
      () => calls.promise,
      async () => undefined,
    ),
  };
};

test("begins nothing, and gives nothing up before the last call has ended", async () => {
  const { work, clock, calls, taking, stopped } = build();
  expect([taking.aborted, work.signal.aborted]).toEqual([true, false]);
  await clock.advance(endOfCallsMs - 1);
  expect(work.signal.aborted).toBe(false);
  calls.resolve();
  await stopped;
  expect(work.signal.aborted).toBe(true);
});

test("gives up what takes too long", async () => {
  const { work, clock, stopped } = build();
  await clock.advance(endOfCallsMs);
  await stopped;
  expect(work.signal.aborted).toBe(true);
});
