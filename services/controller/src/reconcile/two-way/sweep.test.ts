import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createSweep, type Sweep } from "./sweep.ts";
import type { PassOptions, PassResult, TwoWayPass } from "./two-way-pass.ts";

const intervalMs = 600_000;
const clean: PassResult = { entries: 10, pages: 1, orphans: 0, redriven: 0, unproven: 0 };

let clock: ReturnType<typeof createManualClock>;
let life: AbortController;
let names: string[];
let starts: { readonly plugin: string; readonly at: number }[];
let answer: (plugin: string, options: PassOptions | undefined) => Promise<PassResult>;
let sweep: Sweep;
let awaited: boolean;

beforeEach(() => {
  clock = createManualClock();
  life = new AbortController();
  names = ["a"];
  starts = [];
  awaited = false;
  answer = async () => clean;
  const pass: TwoWayPass = {
    run: (plugin, options) => {
      starts.push({ plugin, at: clock.now() });
      return answer(plugin, options);
    },
    awaited: () => awaited,
  };
  sweep = createSweep({
    pass,
    plugins: { names: () => names },
    clock,
    random: () => 0.5,
    log: createMemoryLogger(),
    signal: life.signal,
    intervalMs,
  });
  sweep.run().catch(() => undefined);
});
afterEach(() => life.abort(new Error("over")));

const pass = async (ms: number): Promise<void> => {
  for (let left = ms; left > 0; left -= 5_000) await clock.advance(Math.min(5_000, left));
};
const gaps = (plugin: string): readonly number[] => {
  const at = starts.filter((s) => s.plugin === plugin).map((s) => s.at);
  return at.slice(1).map((t, i) => t - (at[i] ?? 0));
};

describe("the sweep", () => {
  test("begins a while after the start, and again an interval after the end", async () => {
    await pass(intervalMs / 10);
    expect(starts).toEqual([]);
    await pass(3 * intervalMs);
    expect(gaps("a").length).toBeGreaterThan(1);
    for (const gap of gaps("a")) expect(gap).toBeGreaterThanOrEqual(intervalMs);
    expect(sweep.status()).toMatchObject([{ plugin: "a", last: { entries: 10 } }]);
  });

  test.each([-86_400_000, 86_400_000])("keeps its interval when the wall clock is set by %i ms", async (by) => {
    await pass(intervalMs);
    const before = starts.length;
    clock.setWall(clock.now() + by);
    await pass(5_000);
    expect(starts).toHaveLength(before);
    await pass(intervalMs);
    expect(starts).toHaveLength(before + 1);
  });

  test("never runs twice at once for a plugin, and lets a slow one hold up no other", async () => {
    names = ["slow", "quick"];
    answer = (plugin) => (plugin === "slow" ? new Promise(() => undefined) : Promise.resolve(clean));
    await pass(5 * intervalMs);
    expect(starts.filter((s) => s.plugin === "slow")).toHaveLength(1);
    expect(starts.filter((s) => s.plugin === "quick").length).toBeGreaterThan(2);
    expect(sweep.status().find((s) => s.plugin === "slow")?.running).toEqual({ entries: 0, pages: 0 });
  });

  test("[O47] asks a plugin that cannot be read less and less often, and as before once it can", async () => {
    answer = async () => ({ ...clean, gap: { reason: "RESOURCE_EXHAUSTED", message: "slow down" } });
    await pass(20 * intervalMs);
    const slower = gaps("a");
    expect(slower[0]).toBeGreaterThanOrEqual(2 * intervalMs);
    expect(slower[1]).toBeGreaterThanOrEqual(4 * intervalMs);
    expect(Math.max(...slower)).toBeLessThanOrEqual(8 * intervalMs + 10_000);
    answer = async () => clean;
    await pass(20 * intervalMs);
    expect(gaps("a").at(-1)).toBeLessThanOrEqual(intervalMs + 10_000);
  });

  test("goes on after a pass that threw", async () => {
    answer = async () => {
      throw new Error("broken");
    };
    await pass(10 * intervalMs);
    expect(starts.length).toBeGreaterThan(1);
  });

  test("spreads the pages of a long list over the interval and shows how far it is", async () => {
    const pages = 20;
    let pauses = 0;
    answer = async (_plugin, options) => {
      const from = clock.now();
      for (let n = 1; n <= pages; n += 1) await options?.afterPage?.({ entries: n * 500, pages: n });
      pauses = clock.now() - from;
      return { ...clean, pages };
    };
    await pass(2 * intervalMs);
    expect(pauses).toBe(0); // nothing was known of its length
    await pass(3 * intervalMs);
    expect(pauses).toBeGreaterThan(intervalMs / 3);
    expect(pauses).toBeLessThanOrEqual(intervalMs);
    // Somebody waits for a scan of his own: no pause is worth that.
    awaited = true;
    await pass(3 * intervalMs);
    expect(pauses).toBe(0);
  });

  test("forgets a plugin that is gone", async () => {
    await pass(2 * intervalMs);
    names = [];
    await pass(5_000);
    expect(sweep.status()).toEqual([]);
  });
});
