import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CallTimes, withTime } from "./call-times.ts";
import {
  type Concurrency,
  type ConcurrencyEvent,
  callsAtOnce,
  concurrencyStep,
  firstConcurrency,
} from "./concurrency.ts";

const timesOf = (...ms: readonly number[]): CallTimes => {
  const times = ms.reduce<CallTimes | undefined>((before, took) => withTime(before, took), undefined);
  if (times === undefined) throw new Error("no times");
  return times;
};
const calm = timesOf(...Array.from({ length: 50 }, () => 10));
const answered = (running: number, startedAt = 0, times = calm): ConcurrencyEvent => ({
  type: "answered",
  startedAt,
  running,
  times,
});

describe("how many calls a plugin gets at once", () => {
  it("is what the profile says until the plugin pushes back, then half, and one more after each round of answers", () => {
    let state = firstConcurrency(64);
    expect(callsAtOnce(state)).toBe(64);
    state = concurrencyStep(state, { type: "pushback", startedAt: 5 }, 64, 10);
    expect(callsAtOnce(state)).toBe(32);
    for (let n = 0; n < 33; n += 1) state = concurrencyStep(state, answered(32), 64, 20);
    expect(callsAtOnce(state)).toBe(33);
  });

  it("[C2] is lowered once by an overload, however many calls it met", () => {
    let state = firstConcurrency(64);
    for (let n = 0; n < 64; n += 1) state = concurrencyStep(state, { type: "pushback", startedAt: 0 }, 64, 10 + n);
    expect(callsAtOnce(state)).toBe(32);
    state = concurrencyStep(state, { type: "pushback", startedAt: 50 }, 64, 60);
    expect(callsAtOnce(state)).toBe(16);
  });

  it("[C3] does not grow while it is not what holds calls back", () => {
    const low = concurrencyStep(firstConcurrency(64), { type: "pushback", startedAt: 0 }, 64, 1);
    let state = low;
    for (let n = 0; n < 1_000; n += 1) state = concurrencyStep(state, answered(10), 64, 2);
    expect(state).toEqual(low);
  });

  it("[C4] one volume that takes a thousand times as long changes nothing; all of them together do", () => {
    let state = firstConcurrency(64);
    let times = calm;
    for (let n = 0; n < 300; n += 1) {
      times = withTime(times, n % 10 === 0 ? 10_000 : 10);
      state = concurrencyStep(state, answered(64, n, times), 64, n);
    }
    expect(callsAtOnce(state)).toBe(64);
    for (let n = 300; n < 360; n += 1) {
      times = withTime(times, 100);
      state = concurrencyStep(state, answered(64, n, times), 64, n);
    }
    expect(callsAtOnce(state)).toBeLessThan(64);
    expect(callsAtOnce(state)).toBeGreaterThan(1);
  });

  it("follows the profile", () => {
    expect(callsAtOnce(concurrencyStep(firstConcurrency(64), { type: "most" }, 10, 0))).toBe(10);
    expect(callsAtOnce(concurrencyStep(firstConcurrency(10), { type: "most" }, 64, 0))).toBe(64);
  });

  it("[C1] stays between one and what is allowed, and comes back from any overload", () => {
    const event = fc.oneof(
      fc.record({ type: fc.constant("pushback" as const), startedAt: fc.nat(1_000) }),
      fc.nat(64).map((running) => answered(running)),
      fc.constant<ConcurrencyEvent>({ type: "most" }),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 200 }), fc.integer({ min: 1, max: 64 }), (events, most) => {
        let state: Concurrency = firstConcurrency(most);
        for (const [now, one] of events.entries()) {
          state = concurrencyStep(state, one, most, now);
          expect(callsAtOnce(state)).toBeGreaterThanOrEqual(1);
          expect(callsAtOnce(state)).toBeLessThanOrEqual(most);
        }
        for (let n = 0; n < 64 * 64; n += 1) state = concurrencyStep(state, answered(64, 2_000), most, 3_000);
        expect(callsAtOnce(state)).toBe(most);
      }),
    );
  });
});
