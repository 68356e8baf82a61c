/**
 * Claims come and go over two controllers while the store behind them fails over, in some rounds with the loss of commits that it had
 * acknowledged. Told afterwards: who wrote beside whom, what was taken from running workloads, and what stands still and says nothing.
 */
import { writeFile } from "node:fs/promises";
import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { createSeededRandom } from "../local-driver/seeded-random.ts";
import { startRedisCluster } from "../support/redis-cluster.ts";
import { startRedisSentinels } from "../support/redis-sentinels.ts";
import type { RedisServer } from "../support/redis-server.ts";
import type { RedisServers } from "../support/redis-servers.ts";
import { openRedisWays, type RedisWays } from "../support/redis-ways.ts";
import { type Cluster, startCluster } from "./cluster.ts";
import { doubleWriters } from "./double-writers.ts";
import { figuresOfOutput, refusedByGeneration, type ToldFigures } from "./failover-figures.ts";
import { type FailoverKind, failOver } from "./failover-kinds.ts";
import { createFailoverPerson, type FailoverPerson } from "./failover-person.ts";
import { createFailoverWorkload, type WorkloadCounts } from "./failover-workload.ts";
import { seenFrom } from "./plugin-driver.ts";
import { namespace, persistently, stateName } from "./scenario.ts";
import { takenInUse } from "./taken-in-use.ts";
import { until } from "./until.ts";

const starts = { sentinel: startRedisSentinels, cluster: startRedisCluster } satisfies Record<
  string,
  () => Promise<RedisServers>
>;

export interface FailoverOptions {
  readonly seed: number;
  readonly rounds: readonly FailoverKind[];
  readonly servers: keyof typeof starts;
  /** The plugin has ControllerPublish. */
  readonly attaches: boolean;
  /** A file for all that the processes print. */
  readonly output?: string;
  readonly tell?: (line: string) => void;
}

export interface FailoverRound {
  readonly kind: FailoverKind;
  /** From the moment in which the master went to a grant that was asked for afterwards, in ms. */
  readonly nextGrant: number;
  /** Until both controllers grant again, from the moment in which everything is back. */
  readonly allOpen: number;
  /** Acknowledged commits, at least. */
  readonly lost: number;
}

export interface FailoverFigures extends WorkloadCounts, ToldFigures {
  readonly seed: number;
  readonly rounds: readonly FailoverRound[];
  readonly person: FailoverPerson["counts"];
  /** Orders that agents refused for their generation, by operation. */
  readonly refused: Readonly<Record<string, number>>;
  readonly violations: readonly string[];
  readonly doubles: readonly string[];
  /** Calls that took something from a workload which was not let go of. */
  readonly taken: readonly string[];
  readonly silent: readonly string[];
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const nodes = ["node-a", "node-b"];

export const runFailovers = async (options: FailoverOptions): Promise<FailoverFigures> => {
  const store = await starts[options.servers]();
  let ways: RedisWays | undefined;
  let cluster: Cluster | undefined;
  try {
    ways = await openRedisWays(store);
    const without = options.attaches ? [] : ["controller.PUBLISH_UNPUBLISH_VOLUME" as const];
    cluster = await startCluster({
      nodes,
      store: store.url,
      second: { store: ways.url },
      realMounts: true,
      backend: { judgesArrivals: true, capabilities: { without } },
    });
    return await runOn({ cluster, store, ways }, options);
  } finally {
    await cluster?.stop();
    if (options.output !== undefined && cluster !== undefined) await writeFile(options.output, cluster.output());
    await ways?.close();
    await store.stop();
  }
};

interface Running {
  readonly cluster: Cluster;
  readonly store: RedisServers;
  readonly ways: RedisWays;
}

const runOn = async (
  { cluster, store, ways }: Running,
  { seed, rounds, tell = () => undefined }: FailoverOptions,
): Promise<FailoverFigures> => {
  const random = createSeededRandom(seed);
  const sides = [seenFrom(cluster, "first"), seenFrom(cluster, "second")];
  const admins = nodes.map((name) =>
    cluster
      .node(name)
      .agent()
      .line((line) => line["message"] === "admin listening", "its metrics"),
  );
  const workload = await createFailoverWorkload({ cluster, sides, nodes, random });
  const person = createFailoverPerson({ cluster, sides, nodes, url: store.url, workload });
  await store.replicated();
  /** With what the controllers say of it, for whoever reads why a run did not go on. */
  const explained = async (error: unknown): Promise<never> => {
    const views = await Promise.all(sides.map((side) => viewOf(side).catch(String)));
    throw new Error(`${String(error)}; ${views.join("\n")}`);
  };
  /** Until it is so, with a person who does meanwhile what can be done. */
  const attended = async <T>(what: string, so: () => Promise<T | undefined | false>): Promise<T> => {
    const look = async (): Promise<T | undefined | false> => {
      await person.look();
      return await so();
    };
    return await until(what, look, 90_000).catch(explained);
  };
  const allOpen = async (): Promise<boolean> => {
    const gates = await Promise.all(sides.map(({ repair }) => repair.vet({}).catch(() => ({ open: false }))));
    return gates.every(({ open }) => open);
  };

  const done: FailoverRound[] = [];
  let master = await store.settled();
  workload.start();
  try {
    for (const kind of rounds) {
      await pause(300 + random.integer(700));
      tell(`seed ${seed}, round ${done.length + 1}: ${kind}`);
      const { at, back } = await failOver[kind]({ store, master, ways, random, recover: person.recover });
      const granted = await attended("a grant", async () => workload.grantSince(at));
      const lost = await back();
      const returned = performance.now();
      master = await online(store, store.replicas.length);
      await attended("the gates of both controllers to open", allOpen);
      const round = {
        kind,
        nextGrant: Math.round(granted - at),
        allOpen: Math.round(performance.now() - returned),
        lost,
      };
      done.push(round);
      const counts = { ...workload.counts, ...person.counts };
      tell(`seed ${seed}, round ${done.length} of ${rounds.length}: ${JSON.stringify({ ...round, ...counts })}`);
    }
  } finally {
    await workload.end();
  }
  await attended("everything to be let go", async () => {
    const { claims } = await cluster.claims.listClaims({ filter: { namespace } });
    return claims.every(
      ({ workload: name, state }) => workload.holds(name) || state >= ClaimState.CLAIM_STATE_RELEASED,
    );
  });

  const calls = await cluster.backend.client.record();
  const still = await persistently("the claims", () => cluster.claims.listClaims({ filter: { namespace } }));
  const silent = workload.running.flatMap(({ id }) => {
    const told = still.claims.filter(({ volume }) => volume === id).map((one) => `${stateName(one)} ${one.waitingFor}`);
    return told.join() === "ACTIVE " ? [] : [`${id}, which is in use, is ${told}`];
  });
  const pages = await Promise.all(
    admins.map(async (line) => (await fetch(`http://${String((await line)["address"])}/metrics`)).text()),
  );
  return {
    seed,
    rounds: done,
    ...workload.counts,
    person: person.counts,
    ...figuresOfOutput(cluster.output()),
    refused: refusedByGeneration(pages),
    violations: (await cluster.backend.client.violations()).map((one) => JSON.stringify(one)),
    doubles: doubleWriters(calls),
    taken: takenInUse(calls, workload.uses),
    silent,
  };
};

/** What callers of one controller are told. */
const viewOf = async ({ repair, claims }: Cluster): Promise<string> => {
  const { open, findings } = await repair.vet({});
  const { stuck } = await repair.listStuck({ pageSize: 20 });
  const listed = await claims.listClaims({ filter: { namespace } });
  return [
    `gate ${open ? "open" : "shut"}: ${findings.map(({ message }) => message)}`,
    ...listed.claims.map(
      (one) => `${one.workload} ${stateName(one)}: ${one.waitingFor} ${one.lastError?.message ?? ""}`,
    ),
    ...stuck.map(({ volume, blocked }) => `${volume}: ${blocked?.reason} ${blocked?.message}`),
  ].join("\n");
};

/** Answers who is the master then: a host that is busy makes those that choose it choose once more. */
const online = async (store: RedisServers, count: number): Promise<RedisServer> =>
  await until(
    "the replicas to be there again",
    async () => {
      const master = await store.settled();
      const told = await (await master.admin()).info("replication");
      return (told.match(/state=online/g) ?? []).length === count ? master : undefined;
    },
    60_000,
  );
