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
/** Some of them by their names, separated by commas. */
const chosen = <T extends string>(setting: string, all: readonly T[]): readonly T[] => {
  const names = process.env[setting]?.split(",") ?? all;
  const unknown = names.filter((name) => !all.some((one) => one === name));
  if (unknown.length > 0) throw new Error(`${setting} names ${unknown}, and there are ${all}`);
  return all.filter((one) => names.includes(one));
};
const kinds = chosen("HOLDFAST_FAILOVERS_KINDS", failoverKinds);
const places = chosen("HOLDFAST_FAILOVERS_SERVERS", ["sentinel", "cluster"]);

/** The nodes of a cluster cannot be cut from each other here. */
const hatOf = (servers: (typeof places)[number]): readonly FailoverKind[] =>
  kinds
    .filter((kind) => servers === "sentinel" || kind !== "cut-replicas")
    .flatMap((kind) => Array.from({ length: shares[kind] }, () => kind));

/**
 * An attachment that the store has forgotten stays until a person removes it: the plugin refuses another one beside it, and nothing has it
 * mounted (docs/protocol.md, "Built, and next").
 */
const besideForgotten = /"rule":"(?:arrived-attach-elsewhere-in-use|attach-second-node)"/;

const perCluster = 10;
const clusters = Array.from({ length: Math.ceil(failovers / perCluster) }, (_, i) => {
  const own = seed + i;
  const servers = places[i % places.length] ?? "sentinel";
  const hat = hatOf(servers);
  const count = Math.min(perCluster, failovers - i * perCluster);
  const rounds = Array.from({ length: Math.ceil(count / hat.length) }, () =>
    createSeededRandom(own).some(hat, hat.length),
  );
  return { seed: own, rounds: rounds.flat().slice(0, count), servers, attaches: i % 4 > 1 };
});

describe.runIf(full && root)(`${failovers} failovers of Redis, HOLDFAST_SEED=${seed}`, () => {
  const told: FailoverFigures[] = [];

  it.each(clusters)(
    "[I1] [I2] [I8] seed $seed, $servers, with ControllerPublish: $attaches",
    { timeout: 1_800_000 },
    async (cluster) => {
      const figures = await runFailovers({
        ...cluster,
        tell: (line) => console.log(line),
        ...(outputs === undefined ? {} : { output: path.join(outputs, `failovers-${cluster.seed}.log`) }),
      });
      told.push(figures);
      const shown = JSON.stringify(figures);
      expect(
        figures.violations.filter((one) => !besideForgotten.test(one)),
        shown,
      ).toEqual([]);
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
      attachesBesideForgotten: sum(({ violations }) => violations.filter((one) => besideForgotten.test(one)).length),
      holdsGivenUp: sum(({ person }) => person.foreign),
      attachmentsRemoved: sum(({ person }) => person.detached),
      historiesAccepted: sum(({ person }) => person.accepted),
      ...times(rounds),
    };
    console.log(JSON.stringify({ seed, all, ...Object.fromEntries(byKind) }, null, 1));
  });
});
