import { describe, expect, it } from "vitest";
import { runFailovers } from "../harness/failover-run.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

/** A sample of `test/full/failovers.test.ts`. */
describe.skipIf(!root)("a store that fails over under claims that come and go, by two controllers", () => {
  it("[I1] [I2] [I8] nobody writes beside another one, and nothing is taken from who runs", {
    timeout: 240_000,
  }, async () => {
    const figures = await runFailovers({ seed: 5, rounds: ["kill", "lose"], servers: "sentinel", attaches: false });
    const told = JSON.stringify(figures);
    expect(figures.violations, told).toEqual([]);
    expect(figures.doubles, told).toEqual([]);
    expect(figures.taken, told).toEqual([]);
    expect(figures.silent, told).toEqual([]);
    expect(figures.rounds).toHaveLength(2);
  });
});
