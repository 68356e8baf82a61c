import { describe, expect, it } from "vitest";
import { runLateCalls } from "../harness/late-run.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

/** A sample of `test/full/late-calls.test.ts`. */
describe.skipIf(!root)("late answers, killed and stopped processes, two controllers", () => {
  it("[I1] [I2] [I5] [I6] nothing arrives that must not, and nothing is left", { timeout: 90_000 }, async () => {
    const figures = await runLateCalls({
      seed: 11,
      relayed: false,
      claims: 12,
      volumes: 4,
      nodes: 1,
      controllers: 2,
      kills: 2,
      stops: 2,
      holds: 0,
      longestStopMs: 2_000,
      slowMs: [1_000, 2_000],
      disturbances: 1,
    });
    expect(figures.violations, JSON.stringify(figures)).toEqual([]);
    expect(figures.leaks).toEqual([]);
    expect([...figures.unexplained, ...figures.unfinished]).toEqual([]);
    expect(figures.failed).toEqual({});
    expect(figures.active).toBe(figures.claims);
  });
});
