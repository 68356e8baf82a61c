import { describe, expect, it } from "vitest";
import { type LateFigures, runLateCalls } from "../harness/late-run.ts";
import { seedOfRun } from "../local-driver/seeded-random.ts";
import { full } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: real mounts need root");

const total = (counts: LateFigures["kills"]): number => Object.values(counts).reduce((a, b) => a + b, 0);

describe.runIf(full && root)(
  "5,000 claims of 50 volumes on 3 nodes by 3 controllers; 5 % of the calls take 5 to 10 s",
  () => {
    it.each([
      { where: "beside the controllers", relayed: false, holds: 0 },
      { where: "on two nodes, behind their agents", relayed: true, holds: 20 },
    ])(
      "[I1] [I2] [I5] [I6] the plugin's controller halves are $where",
      { timeout: 3_000_000 },
      async ({ relayed, holds }) => {
        const seed = seedOfRun();
        console.log(`HOLDFAST_SEED=${seed}`);
        const figures = await runLateCalls({
          seed,
          relayed,
          claims: 5_000,
          volumes: 50,
          nodes: 3,
          controllers: 3,
          kills: 60,
          stops: 60,
          holds,
          longestStopMs: 20_000,
          slowMs: [5_000, 10_000],
          disturbances: 3,
          tell: (line) => console.log(line),
        });
        console.log(JSON.stringify(figures, null, 2));
        expect(figures.violations).toEqual([]);
        expect(figures.leaks).toEqual([]);
        expect(figures.silent).toEqual([]);
        expect(figures.unexplained).toEqual([]);
        expect(figures.unfinished).toEqual([]);
        expect(figures.claims).toBeGreaterThanOrEqual(5_000);
        expect(total(figures.kills)).toBeGreaterThanOrEqual(60);
        expect(total(figures.stops)).toBeGreaterThanOrEqual(60);
        expect(figures.slowCalls / figures.calls).toBeGreaterThan(0.03);
        expect(figures.bars).toBeGreaterThanOrEqual(20);
        for (const how of ["ask", "repeat", "person"]) expect(figures.lifted[how], how).toBeGreaterThanOrEqual(3);
        // What one that holds the socket itself sends lies on no way.
        if (relayed) expect(figures.stale).toBeGreaterThanOrEqual(20);
      },
    );
  },
);
