/** What every wait has in common: an aborted one rejects with the reason, and leaves no listener behind. */
import { getEventListeners } from "node:events";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isHoldfastError } from "../errors/holdfast-error.ts";
import { systemClock } from "./clock.ts";
import { every } from "./every.ts";
import { createLimiter } from "./limiter.ts";
import { createManualClock } from "./manual-clock.ts";
import { createNotifier } from "./notifier.ts";
import { isAbort, linkSignals, onAbort, waitFor } from "./signals.ts";

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const never = () => new Promise<never>(() => undefined);

/** A limiter whose only place is taken. */
function fullLimiter() {
  const limiter = createLimiter({ name: "full", limit: 1, maxQueued: 10 });
  void limiter.run(undefined, never);
  return limiter;
}

const waits: Readonly<Record<string, (signal: AbortSignal) => Promise<unknown>>> = {
  waitFor: (signal) => waitFor(never(), signal),
  "clock.sleep": (signal) => systemClock.sleep(60_000, signal),
  "manual clock": (signal) => createManualClock().sleep(60_000, signal),
  notifier: (signal) => createNotifier().wait(0, signal),
  limiter: (signal) => fullLimiter().run(signal, async () => "ran"),
  every: (signal) => every(60_000, () => undefined, { signal, onError: () => undefined }),
};

describe.each(Object.entries(waits))("%s", (_name, wait) => {
  test("rejects with the reason and lets go of the signal", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const waiting = wait(controller.signal);
    await turn();
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(1);
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  });

  test("rejects at once when it was over before", async () => {
    const reason = new Error("before");
    await expect(wait(AbortSignal.abort(reason))).rejects.toBe(reason);
  });
});

test("waitFor gives what the promise gives, and no listener stays", async () => {
  const { signal } = new AbortController();
  expect(await waitFor(Promise.resolve(7), signal)).toBe(7);
  await expect(waitFor(Promise.reject(new Error("x")), signal)).rejects.toThrow("x");
  await turn();
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});

test("a signal has one listener for all that hear of its abort, none once all have left, and those that left hear nothing", () => {
  const controller = new AbortController();
  const { signal } = controller;
  const heard: number[] = [];
  const leaves = Array.from({ length: 100 }, (_, n) =>
    onAbort(signal, () => {
      heard.push(n);
      // One that leaves while the others are told.
      if (n === 50) leaves[60]?.();
    }),
  );
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  for (const leave of leaves.slice(0, 50)) leave();
  leaves[49]?.();
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  for (const leave of leaves.slice(50)) leave();
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
  for (let n = 50; n < 100; n += 1) {
    leaves[n] = onAbort(signal, () => {
      heard.push(n);
      if (n === 50) leaves[60]?.();
    });
  }
  controller.abort();
  expect(heard).toEqual(Array.from({ length: 50 }, (_, n) => n + 50).filter((n) => n !== 60));
  for (const leave of leaves) leave();
});

test("linked signals abort with the first parent's reason and can be let go", () => {
  const [a, b] = [new AbortController(), new AbortController()];
  const linked = linkSignals(a.signal, undefined, b.signal);
  b.abort(new Error("b"));
  a.abort(new Error("a"));
  expect(linked.signal.reason).toMatchObject({ message: "b" });
  expect(getEventListeners(a.signal, "abort")).toHaveLength(0);

  const parent = new AbortController();
  const free = linkSignals(parent.signal);
  free.dispose();
  parent.abort();
  expect(free.signal.aborted).toBe(false);
  expect(linkSignals(AbortSignal.abort(new Error("c"))).signal.reason).toMatchObject({ message: "c" });
});

test("isAbort knows aborts of every make, and nothing else", () => {
  expect(isAbort(AbortSignal.abort().reason)).toBe(true);
  expect(isAbort(new DOMException("x", "TimeoutError"))).toBe(true);
  expect(isAbort({ name: "AbortError" })).toBe(true);
  expect([new Error("AbortError"), null, undefined, "AbortError"].map(isAbort)).toEqual([false, false, false, false]);
});

describe("notifier", () => {
  test("a change between the read and the wait is not missed", async () => {
    const notifier = createNotifier();
    const seen = notifier.version();
    notifier.notify();
    expect(await notifier.wait(seen, undefined)).toBe(seen + 1);
  });

  test("wakes everyone who waits, once", async () => {
    const notifier = createNotifier();
    const waiting = [notifier.wait(0, undefined), notifier.wait(0, undefined)];
    expect(notifier.waiting()).toBe(2);
    notifier.notify();
    expect(await Promise.all(waiting)).toEqual([1, 1]);
    expect(notifier.waiting()).toBe(0);
  });
});

describe("limiter", () => {
  test("bounds what runs and what waits, and refuses the rest at once", async () => {
    const limiter = createLimiter({ name: "calls", limit: 2, maxQueued: 3 });
    let running = 0;
    let most = 0;
    const release: (() => void)[] = [];
    const job = () =>
      limiter.run(undefined, async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise<void>((resolve) => release.push(resolve));
        running -= 1;
      });
    const jobs = Array.from({ length: 5 }, job);
    await turn();
    expect([limiter.running(), limiter.queued()]).toEqual([2, 3]);
    await expect(job()).rejects.toMatchObject({
      kind: "exhausted",
      reason: "OVERLOADED",
      metadata: { limiter: "calls" },
    });
    const draining = Promise.all(jobs);
    while (limiter.running() > 0) {
      for (const done of release.splice(0)) done();
      await turn();
    }
    await draining;
    expect(most).toBe(2);
    expect(limiter.queued()).toBe(0);
  });

  test("a raised limit lets waiters in, a failed job gives its place back", async () => {
    const limiter = createLimiter({ name: "n", limit: 1, maxQueued: 5 });
    void limiter.run(undefined, never);
    const second = limiter.run(undefined, async () => {
      throw new Error("job");
    });
    const outcome = expect(second).rejects.toThrow("job");
    limiter.setLimit(2);
    await outcome;
    expect(limiter.running()).toBe(1);
    expect(await limiter.run(undefined, async () => "in")).toBe("in");
  });
});

test("a limiter under any order of starts, ends, aborts and changed limits keeps its bounds and forgets nobody", async () => {
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant("start" as const) }) },
    fc.record({ do: fc.constant("end" as const), which: fc.nat(8) }),
    fc.record({ do: fc.constant("abort" as const), which: fc.nat(8) }),
    fc.record({ do: fc.constant("limit" as const), to: fc.integer({ min: 1, max: 4 }) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40, size: "max" }), async (steps) => {
      const limiter = createLimiter({ name: "n", limit: 2, maxQueued: 3 });
      let highest = 2;
      let running = 0;
      const jobs: { end: () => void; abort: AbortController; outcome: Promise<string> }[] = [];
      for (const one of steps) {
        if (one.do === "start") {
          const abort = new AbortController();
          let end: () => void = () => undefined;
          const ended = new Promise<void>((resolve) => {
            end = resolve;
          });
          const run = limiter.run(abort.signal, async () => {
            running += 1;
            expect(running).toBeLessThanOrEqual(highest); // M1
            await ended;
            running -= 1;
          });
          const outcome = run.then(
            () => "ran",
            (error: unknown) => {
              if (isHoldfastError(error)) return error.reason;
              if (isAbort(error)) return "aborted";
              throw error;
            },
          );
          jobs.push({ end, abort, outcome });
        } else if (one.do === "end") jobs[one.which]?.end();
        else if (one.do === "abort") jobs[one.which]?.abort.abort();
        else {
          // A lowered limit lets those that run end.
          highest = Math.max(one.to, running);
          limiter.setLimit(one.to);
        }
        expect(limiter.queued()).toBeLessThanOrEqual(3); // M2
        await turn();
        highest = Math.max(limiter.limit(), running);
      }
      for (const { end } of jobs) end();
      const outcomes = await Promise.all(jobs.map(({ outcome }) => outcome));
      for (const outcome of outcomes) expect(["ran", "aborted", "OVERLOADED"]).toContain(outcome);
      expect([limiter.running(), limiter.queued(), running]).toEqual([0, 0, 0]); // M3
    }),
    { numRuns: 60 },
  );
});

describe("every", () => {
  test("without anyone to report to, a failing tick ends the loop", async () => {
    const clock = createManualClock();
    const loop = every(10, () => Promise.reject(new Error("tick")), { signal: new AbortController().signal, clock });
    const ended = expect(loop).rejects.toThrow("tick");
    await clock.advance(10);
    await ended;
  });

  test("ticks without overlap, survives a failing tick, ends with the signal", async () => {
    const clock = createManualClock();
    const controller = new AbortController();
    const errors: unknown[] = [];
    let ticks = 0;
    const loop = every(
      1000,
      async () => {
        ticks += 1;
        if (ticks === 2) throw new Error("tick");
        await clock.sleep(500, controller.signal);
      },
      { signal: controller.signal, clock, onError: (error) => errors.push(error) },
    );
    const ended = expect(loop).rejects.toThrow("over");
    await clock.advance(999);
    expect(ticks).toBe(0);
    await clock.advance(1);
    expect(ticks).toBe(1);
    await clock.advance(1500);
    expect(ticks).toBe(2);
    await clock.advance(1000);
    expect([ticks, errors.length]).toEqual([3, 1]);
    controller.abort(new Error("over"));
    await ended;
    expect(clock.pending()).toBe(0);
  });
});

test("a manual clock fires in order of time, also what timers add on the way", async () => {
  const clock = createManualClock();
  const fired: string[] = [];
  clock.timer(20, () => fired.push("20"));
  clock.timer(10, () => {
    fired.push("10");
    clock.timer(5, () => fired.push("15"));
  });
  const cancel = clock.timer(12, () => fired.push("never"));
  cancel();
  const wall = clock.now();
  await clock.advance(30);
  expect(fired).toEqual(["10", "15", "20"]);
  expect(clock.monotonic()).toBe(30);
  expect(clock.now() - wall).toBe(30);
  clock.setWall(5);
  expect([clock.now(), clock.monotonic()]).toEqual([5, 30]);
});
