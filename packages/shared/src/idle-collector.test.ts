import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { createManualClock } from "./async/manual-clock.ts";
import { collectWhenIdle, createIdleCollector } from "./idle-collector.ts";

const world = () => {
  const state = { resident: 100, busy: 0, collections: 0 };
  const look = createIdleCollector({
    resident: () => state.resident,
    busy: () => state.busy,
    collect: () => {
      state.collections += 1;
    },
  });
  const looks = (count: number): number => {
    const before = state.collections;
    for (let n = 0; n < count; n += 1) look();
    return state.collections - before;
  };
  return { state, looks };
};

test("an idle service collects four times, and not again before it has grown by a tenth", () => {
  const { state, looks } = world();
  expect(looks(10)).toBe(4);
  state.resident = 110;
  expect(looks(10)).toBe(0);
  state.resident = 111;
  expect(looks(10)).toBe(4);
});

test("a service that was busy collects nothing, and later what it owed", () => {
  const { state, looks } = world();
  state.busy = 0.5;
  expect(looks(10)).toBe(0);
  state.busy = 0;
  expect(looks(1)).toBe(1);
  state.busy = 0.5;
  expect(looks(10)).toBe(0);
  state.busy = 0;
  expect(looks(10)).toBe(3);
});

test("what a collection left is the measure, however much it is", () => {
  const { state, looks } = world();
  looks(10);
  state.resident = 1000;
  expect(looks(10)).toBe(4);
  state.resident = 1050;
  expect(looks(10)).toBe(0);
});

test("Node's own collector is asked, until the service ends", async () => {
  const clock = createManualClock();
  const end = new AbortController();
  collectWhenIdle(process, end.signal, clock);
  const gone = new WeakRef({ held: "by nobody" });
  for (let looks = 0; looks < 20 && gone.deref() !== undefined; looks += 1) {
    await sleep(20);
    await clock.advance(10_000);
  }
  expect(gone.deref()).toBeUndefined();
  end.abort();
});

test("memory that cannot be measured, as without a file descriptor, ends nothing and is measured again", async () => {
  const clock = createManualClock();
  const end = new AbortController();
  let asked = 0;
  const rss = (): number => {
    asked += 1;
    throw Object.assign(new Error("too many open files"), { code: "EMFILE" });
  };
  collectWhenIdle({ memoryUsage: { rss } }, end.signal, clock);
  for (let looks = 0; looks < 20 && asked < 2; looks += 1) {
    await sleep(20);
    await clock.advance(10_000);
  }
  expect(asked).toBeGreaterThan(1);
  end.abort();
});
