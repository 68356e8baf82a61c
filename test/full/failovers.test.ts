import path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { percentile } from "../harness/failover-figures.ts";
import { type FailoverKind, failoverKinds } from "../harness/failover-kinds.ts";
import { type FailoverFigures, runFailovers } from "../harness/failover-run.ts";
import { createSeededRandom, seedOfRun } from "../local-driver/seeded-random.ts";
import { full } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: real mounts need root");

const failovers = Number(process.env["HOLDFAST_FAILOVERS"] ?? 200);
const seed = seedOfRun();
/** A directory that keeps what the processes of each cluster print. */
const outputs = process.env["HOLDFAST_FAILOVERS_OUTPUT"];

/** How many of each kind stand in twenty. */
const shares: Readonly<Record<FailoverKind, number>> = {
  kill: 3,
  freeze: 3,
  lose: 5,
  "cut-one": 2,
  "cut-replicas": 3,
  "older-file": 3,
  flush: 1,
};
/** HOLDFAST_FAILOVER_KINDS=kill,lose: only those. */
const kinds = process.env["HOLDFAST_FAILOVER_KINDS"]?.split(",") ?? failoverKinds;
const hat = failoverKinds.flatMap((kind) =>
  kinds.includes(kind) ? Array.from({ length: shares[kind] }, () => kind) : [],
);

/** With attachments the plugin's book still shows detaches and attaches that an older record asks for: docs/protocol.md, "Built, and next". */
const attaches = process.env["HOLDFAST_FAILOVERS_ATTACH"] === "1" ? [false, true] : [false];

const perCluster = 20;
const clusters = Array.from({ length: Math.ceil(failovers / perCluster) }, (_, i) => {
  const own = seed + i;
  const count = Math.min(perCluster, failovers - i * perCluster);
  const rounds = Array.from({ length: Math.ceil(count / hat.length) }, () =>
    createSeededRandom(own).some(hat, hat.length),
  );
  return { seed: own, rounds: rounds.flat().slice(0, count), attaches: attaches[i % attaches.length] === true };
});

describe.runIf(full && root)(`${failovers} failovers of a Redis with sentinels, HOLDFAST_SEED=${seed}`, () => {
  const told: FailoverFigures[] = [];

  it.each(clusters)(
    "[I1] [I2] [I8] seed $seed, with ControllerPublish: $attaches",
    { timeout: 1_800_000 },
    async (cluster) => {
      const figures = await runFailovers({
        ...cluster,
        servers: "sentinel",
        tell: (line) => console.log(line),
        ...(outputs === undefined ? {} : { output: path.join(outputs, `failovers-${cluster.seed}.log`) }),
      });
      told.push(figures);
      const shown = JSON.stringify(figures);
      expect(figures.violations, shown).toEqual([]);
      expect(figures.doubles, shown).toEqual([]);
      expect(figures.taken, shown).toEqual([]);
      expect(figures.silent, shown).toEqual([]);
    },
  );

  it("loses acknowledged commits in every fourth of them, and grants again after each", () => {
    const rounds = told.flatMap((one) => one.rounds);
    const losses = rounds.filter(({ lost }) => lost > 0);
    expect(rounds).toHaveLength(failovers);
    expect(losses.length).toBeGreaterThanOrEqual(kinds.length < failoverKinds.length ? 0 : failovers / 4);
  });

  afterAll(() => {
    const rounds = told.flatMap((one) => one.rounds);
    const sum = (of: (one: FailoverFigures) => number): number => told.reduce((all, one) => all + of(one), 0);
    const quantiles = (times: readonly number[]) => ({ p50: percentile(times, 0.5), p99: percentile(times, 0.99) });
    const times = (some: typeof rounds) => ({
      rounds: some.length,
      lost: some.filter(({ lost }) => lost > 0).length,
      nextGrantMs: quantiles(some.map(({ nextGrant }) => nextGrant)),
      allOpenMs: quantiles(some.map(({ allOpen }) => allOpen)),
    });
    const byKind = failoverKinds.map((kind) => [kind, times(rounds.filter((round) => round.kind === kind))] as const);
    const all = {
      commitsLost: rounds.reduce((lost, round) => lost + round.lost, 0),
      lossesTold: sum((one) => one.lossesTold),
      grants: sum((one) => one.active),
      gatesShut: sum((one) => one.gatesShut),
      ordersRefusedByGeneration: sum(({ refused }) => Object.values(refused).reduce((a, b) => a + b, 0)),
      permitsRefusedByGeneration: sum(({ refused }) => refused["publish"] ?? 0),
      holdsGivenUp: sum(({ person }) => person.foreign),
      historiesAccepted: sum(({ person }) => person.accepted),
      ...times(rounds),
    };
    console.log(JSON.stringify({ seed, all, ...Object.fromEntries(byKind) }, null, 1));
  });
});
