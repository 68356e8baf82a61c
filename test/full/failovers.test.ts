import { describe, expect, it } from "vitest";
import { type FailoverKind, failoverKinds, runFailovers } from "../harness/failover-run.ts";
import { seedOfRun } from "../local-driver/seeded-random.ts";
import { full } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: real mounts need root");

const rounds = Number(process.env["HOLDFAST_FAILOVERS"] ?? 100);

/** With attachments the plugin's book still shows detaches and attaches that an older record asks for: docs/protocol.md, "Built, and next". */
const plugins =
  process.env["HOLDFAST_FAILOVERS_ATTACH"] === "1" ? [{ attaches: false }, { attaches: true }] : [{ attaches: false }];

const percentile = (values: readonly number[], part: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? 0;

describe.runIf(full && root)(
  `${rounds} failovers of a Redis with sentinels, of which every third one loses commits`,
  () => {
    it.each(plugins)(
      "[I1] [I2] [I8] with ControllerPublish: $attaches",
      { timeout: 3_000_000 },
      async ({ attaches }) => {
        const seed = seedOfRun();
        console.log(`HOLDFAST_SEED=${seed}`);
        const kinds = Array.from({ length: rounds }, (_, i): FailoverKind => failoverKinds[i % 3] ?? "kill");
        const figures = await runFailovers({ seed, rounds: kinds, attaches, tell: (line) => console.log(line) });
        const { nextGrant, ...others } = figures;
        console.log(
          JSON.stringify({ ...others, p50: percentile(nextGrant, 0.5), p99: percentile(nextGrant, 0.99) }, null, 2),
        );
        expect(figures.violations).toEqual([]);
        expect(figures.doubles).toEqual([]);
        expect(figures.taken).toEqual([]);
        expect(figures.silent).toEqual([]);
        expect(figures.losses).toBeGreaterThan(0);
      },
    );
  },
);
