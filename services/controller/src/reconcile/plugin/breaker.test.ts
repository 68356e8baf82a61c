import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type Breaker,
  type BreakerEvent,
  breakerStep,
  closedBreaker,
  letsThrough,
  manySubjects,
  pauses,
} from "./breaker.ts";

const silent = (subject: string, random = 0.5): BreakerEvent => ({
  type: "silent",
  subject,
  because: "ControllerPublishVolume answered UNAVAILABLE",
  random,
});
const play = (events: readonly BreakerEvent[], from: Breaker = closedBreaker, now = 0): Breaker =>
  events.reduce((breaker, event) => breakerStep(breaker, event, now), from);
const opened = play([silent("a"), silent("b"), silent("c")]);

const states: Readonly<Record<Breaker["state"], Breaker>> = {
  closed: closedBreaker,
  open: opened,
  "half-open": breakerStep(opened, { type: "time" }, 1e9),
};
const events: Readonly<Record<BreakerEvent["type"], BreakerEvent>> = {
  answered: { type: "answered" },
  silent: silent("z"),
  started: { type: "started" },
  ended: { type: "ended" },
  renewed: { type: "renewed" },
  time: { type: "time" },
};

describe("the breaker of a plugin", () => {
  it.each([
    ["closed", "answered", "closed"],
    ["closed", "silent", "closed"],
    ["closed", "started", "closed"],
    ["closed", "ended", "closed"],
    ["closed", "renewed", "closed"],
    ["closed", "time", "closed"],
    ["open", "answered", "closed"],
    ["open", "silent", "open"],
    ["open", "started", "open"],
    ["open", "ended", "open"],
    ["open", "renewed", "closed"],
    ["open", "time", "half-open"],
    ["half-open", "answered", "closed"],
    ["half-open", "silent", "open"],
    ["half-open", "started", "half-open"],
    ["half-open", "ended", "half-open"],
    ["half-open", "renewed", "closed"],
    ["half-open", "time", "half-open"],
  ] as const)("%s, %s: %s", (state, event, after) => {
    expect(breakerStep(states[state], events[event], 1e9).state).toBe(after);
  });

  it("[K1] is never opened by one volume, however often its calls fail", () => {
    expect(play(Array.from({ length: 100 }, () => silent("hung"))).state).toBe("closed");
    expect(play([silent("a"), silent("b"), { type: "answered" }, silent("c"), silent("d")]).state).toBe("closed");
    expect(opened.state).toBe("open");
  });

  it("[K2] lets one call through at a time when it is half open, and again after one that told nothing", () => {
    const trying = breakerStep(states["half-open"], { type: "started" }, 1e9);
    expect([letsThrough(opened), letsThrough(states["half-open"]), letsThrough(trying)]).toEqual([false, true, false]);
    expect(letsThrough(breakerStep(trying, { type: "ended" }, 1e9))).toBe(true);
  });

  it("[K1] [K3] [K4] over random events: opened by several only, closed by any answer, and tried again in bounded time", () => {
    const event = fc.oneof(
      fc
        .record({
          type: fc.constant("silent" as const),
          subject: fc.constantFrom("a", "b", "c", "d"),
          random: fc.double({ min: 0, max: 0.999, noNaN: true }),
        })
        .map((it) => ({ ...it, because: "x" })),
      fc.constantFrom(events.answered, events.started, events.ended, events.renewed, events.time),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(event, fc.nat(5_000)), { maxLength: 80 }), (steps) => {
        let breaker: Breaker = closedBreaker;
        let now = 0;
        let since = new Set<string>();
        for (const [one, later] of steps) {
          now += later;
          const before = breaker;
          breaker = breakerStep(before, one, now);
          if (one.type === "answered" || one.type === "renewed") {
            expect(breaker).toEqual(closedBreaker);
            since = new Set();
          }
          if (one.type === "silent") since.add(one.subject);
          if (before.state === "closed" && breaker.state === "open")
            expect(since.size).toBeGreaterThanOrEqual(manySubjects);
          if (breaker.state === "open") {
            expect(breaker.until - now).toBeLessThanOrEqual(pauses.capMs);
            expect(breakerStep(breaker, events.time, breaker.until).state).toBe("half-open");
          }
        }
      }),
    );
  });

  it("[K4] waits longer each time it fails in a row, up to a bound", () => {
    let breaker = opened;
    const waits: number[] = [];
    for (let n = 0; n < 8; n += 1) {
      if (breaker.state !== "open") throw new Error(breaker.state);
      const { until } = breaker;
      breaker = breakerStep(breakerStep(breaker, events.time, until), silent("a", 1), until);
      if (breaker.state === "open") waits.push(breaker.until - until);
    }
    expect(waits).toEqual([2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000]);
  });
});
