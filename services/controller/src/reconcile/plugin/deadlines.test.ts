import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CallTimes, withTime } from "./call-times.ts";
import { afterAnswer, afterMiss, bounds, type Deadline, deadlineMs, firstDeadline } from "./deadlines.ts";

const policy = 60_000;

describe("how long a call may take", () => {
  it("[D2] is the time of the table at first, and shorter once many calls were fast", () => {
    let times: CallTimes | undefined;
    expect(deadlineMs(firstDeadline, times, policy)).toBe(policy);
    for (let n = 0; n < 19; n += 1) times = withTime(times, 10);
    expect(deadlineMs(firstDeadline, times, policy)).toBe(policy);
    times = withTime(times, 10);
    expect(deadlineMs(firstDeadline, times, policy)).toBe(policy * bounds.floor);
  });

  it("leaves room above the slowest answer of late", () => {
    let times: CallTimes | undefined;
    for (let n = 0; n < 50; n += 1) times = withTime(times, n === 40 ? 30_000 : 1_000);
    expect(deadlineMs(firstDeadline, times, policy)).toBeGreaterThan(90_000);
  });

  it("[D3] doubles with each miss up to a bound, and answers take that back", () => {
    let deadline: Deadline = firstDeadline;
    const had: number[] = [];
    for (let n = 0; n < 5; n += 1) {
      had.push(deadlineMs(deadline, undefined, policy));
      deadline = afterMiss(had.at(-1) ?? 0, policy);
    }
    expect(had).toEqual([60_000, 120_000, 240_000, 300_000, 300_000]);
    for (let n = 0; n < 100; n += 1) deadline = afterAnswer(deadline, policy);
    expect(deadline).toEqual(firstDeadline);
  });

  it("[D1] is always within its bounds, whatever was seen", () => {
    const event = fc.oneof(fc.record({ took: fc.nat(1_000_000) }), fc.constant({ missed: true as const }));
    fc.assert(
      fc.property(fc.array(event, { maxLength: 100 }), fc.integer({ min: 1_000, max: 120_000 }), (events, ms) => {
        let times: CallTimes | undefined;
        let deadline = firstDeadline;
        for (const one of events) {
          if ("took" in one) {
            times = withTime(times, one.took);
            deadline = afterAnswer(deadline, ms);
          } else deadline = afterMiss(deadlineMs(deadline, times, ms), ms);
          const now = deadlineMs(deadline, times, ms);
          expect(now).toBeGreaterThanOrEqual(Math.round(ms * bounds.floor));
          expect(now).toBeLessThanOrEqual(Math.round(ms * bounds.cap));
        }
      }),
    );
  });
});
