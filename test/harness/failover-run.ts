/**
 * Claims come and go over two controllers while the store behind them fails over, in some rounds with the loss of commits that it had
 * acknowledged: the only replica that has them goes with the master. Told afterwards: who wrote beside whom, what was taken from running
 * workloads, and what stands still and says nothing.
 */
import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { createSeededRandom } from "../local-driver/seeded-random.ts";
import { type RedisSentinels, startRedisSentinels } from "../support/redis-sentinels.ts";
import type { RedisServer } from "../support/redis-server.ts";
import { type Cluster, startCluster } from "./cluster.ts";
import { doubleWriters } from "./double-writers.ts";
import { seenFrom } from "./plugin-driver.ts";
import { makeVolume, namespace, persistently, reasonOf, stateName } from "./scenario.ts";
import { until } from "./until.ts";

/** `kill`: the master. `freeze`: it is stopped, and comes back as a replica. `lose`: it is killed with the only replica that is not behind. */
export const failoverKinds = ["kill", "freeze", "lose"] as const;
export type FailoverKind = (typeof failoverKinds)[number];

export interface FailoverOptions {
  readonly seed: number;
  readonly rounds: readonly FailoverKind[];
  /** The plugin has ControllerPublish. */
  readonly attaches: boolean;
  readonly tell?: (line: string) => void;
}

export interface FailoverFigures {
  readonly seed: number;
  readonly rounds: number;
  /** Grants that were answered, and claims that are over. */
  readonly active: number;
  readonly released: number;
  /** Rounds in which the store had lost commits by its own count, and how many in all. */
  readonly losses: number;
  readonly lost: number;
  /** Holds that the store had forgotten, and that a person gave up. */
  readonly foreign: number;
  /** From the moment in which the master went to a grant that was asked for afterwards, in ms. */
  readonly nextGrant: readonly number[];
  readonly violations: readonly string[];
  readonly doubles: readonly string[];
  /** Calls that took something from a workload which was never let go of. */
  readonly taken: readonly string[];
  readonly silent: readonly string[];
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const nodes = ["node-a", "node-b"];
const moving = ["m0", "m1", "m2", "m3"];
const running = ["r0", "r1"];
const asked = { seconds: 20n, nanos: 0 };

const urlOf = ({ ports }: RedisSentinels): string =>
  `redis+sentinel://${ports.map((port) => `127.0.0.1:${port}`).join(",")}/holdfast`;

export const runFailovers = async (options: FailoverOptions): Promise<FailoverFigures> => {
  const sentinels = await startRedisSentinels();
  let cluster: Cluster | undefined;
  try {
    const without = options.attaches ? [] : ["controller.PUBLISH_UNPUBLISH_VOLUME" as const];
    cluster = await startCluster({
      nodes,
      store: urlOf(sentinels),
      second: {},
      realMounts: true,
      backend: { judgesArrivals: true, capabilities: { without } },
    });
    return await runOn(cluster, sentinels, options);
  } finally {
    await cluster?.stop();
    await sentinels.stop();
  }
};

const runOn = async (
  cluster: Cluster,
  sentinels: RedisSentinels,
  { seed, rounds, tell = () => undefined }: FailoverOptions,
): Promise<FailoverFigures> => {
  const random = createSeededRandom(seed);
  const sides = [seenFrom(cluster, "first"), seenFrom(cluster, "second")];
  const servers = [sentinels.master, ...sentinels.replicas];
  const ids = new Map<string, string>();
  for (const id of [...moving, ...running])
    ids.set(id, (await persistently(id, () => makeVolume(cluster, id))).externalId);
  const counts = { active: 0, released: 0, foreign: 0 };
  const held = new Set<string>();
  const ending = new AbortController();

  const claim = async (side: Cluster, volume: string, workload: string, node: string): Promise<boolean> => {
    const request = { namespace, workload, node, claims: [{ volume }], waitFor: asked };
    const answer = await side.claims.createClaims(request).catch(() => undefined);
    const active = answer?.claims[0]?.state === ClaimState.CLAIM_STATE_ACTIVE;
    counts.active += Number(active);
    return active;
  };
  /** A claim that the store has lost is none to be released; what its node holds is found afterwards. */
  const release = async (workload: string): Promise<void> => {
    await persistently(`the release of ${workload}`, async () => {
      const { claims } = await random.pick(sides).claims.releaseClaims({ namespace, workload, waitFor: asked });
      const left = claims.map(stateName).filter((state) => state !== "RELEASED" && state !== "FAILED");
      if (left.length > 0) throw new Error(`${workload} is ${left}`);
      counts.released += claims.length;
    }).catch(async (error: unknown) => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, workload } });
      if (claims.length > 0) throw error;
    });
  };
  /** Workloads that were let go of, by word of a store that has forgotten it: their scheduler says it again, as it does after any restart. */
  const releaseLost = async (): Promise<void> => {
    const { claims } = await cluster.claims.listClaims({ filter: { namespace } }).catch(() => ({ claims: [] }));
    const forgotten = claims.filter(
      ({ workload, state }) => !held.has(workload) && state === ClaimState.CLAIM_STATE_ACTIVE,
    );
    for (const { workload } of forgotten)
      await cluster.claims.releaseClaims({ namespace, workload }).catch(() => undefined);
  };
  /** What a person would do about it: the workload is known to be stopped. */
  const giveUpForeign = async (): Promise<void> => {
    await releaseLost();
    const { stuck } = await cluster.repair.listStuck({ pageSize: 100 }).catch(() => ({ stuck: [] }));
    for (const { state, volume, workload, claimUid } of stuck) {
      if (state !== "FOREIGN" || held.has(workload)) continue;
      const verb = { namespace, volume, workload, claimUid, evidence: "it was stopped", reason: "test" };
      const { outcome } = await cluster.repair
        .abandonClaim({ ...verb, dryRun: true })
        .catch(() => ({ outcome: undefined }));
      // An agent that is not heard may still have it mounted: nobody can say more than that the workload has stopped.
      if (outcome?.consequence?.effects[0]?.startsWith("the agent of node") !== true) continue;
      const given = await reasonOf(cluster.repair.abandonClaim({ ...verb, confirm: outcome.confirmWith }));
      counts.foreign += Number(given === "done");
    }
  };

  for (const [i, volume] of running.entries()) {
    const workload = `running-${volume}`;
    held.add(workload);
    await until(`${workload} to run`, () => claim(cluster, volume, workload, nodes[i % nodes.length] ?? ""));
  }
  await sentinels.replicated();
  const { seq: began = 0 } = (await cluster.backend.client.record()).at(-1) ?? {};

  const working = moving.map(async (volume) => {
    for (let n = 0; !ending.signal.aborted; n += 1) {
      const workload = `w-${volume}-${n}`;
      held.add(workload);
      if (await claim(random.pick(sides), volume, workload, random.pick(nodes))) await pause(random.integer(200));
      held.delete(workload);
      await release(workload);
    }
  });

  /** Told when the run is over: one that fails leaves the others at work until then. */
  const workers = Promise.allSettled(working);
  const explained = async (error: unknown): Promise<never> => {
    const { stuck } = await cluster.repair.listStuck({ pageSize: 20 });
    const { claims } = await cluster.claims.listClaims({ filter: { namespace } });
    const told = claims.map(
      (one) => `${one.workload} ${stateName(one)}: ${one.waitingFor} ${one.lastError?.message ?? ""}`,
    );
    const words = [
      ...told,
      ...stuck.map(({ volume, blocked }) => `${volume}: ${blocked?.reason} ${blocked?.message}`),
    ].join("\n");
    throw new Error(`${String(error)}; ${words}`);
  };

  const nextGrant: number[] = [];
  let master = await sentinels.settled();
  try {
    for (const [round, kind] of rounds.entries()) {
      await pause(300 + random.integer(700));
      const at = performance.now();
      const stopped = await failOver(kind, { master, servers, sentinels, random });
      const granted = async (): Promise<boolean> => {
        await giveUpForeign();
        const before = counts.active;
        await pause(50);
        return counts.active > before;
      };
      await until("a grant after the failover", granted, 60_000).catch(explained);
      nextGrant.push(Math.round(performance.now() - at));
      for (const server of stopped) await server.back();
      master = await online(sentinels, servers.length - 1);
      tell(
        `round ${round + 1} of ${rounds.length}: ${kind}, next grant after ${nextGrant.at(-1)} ms; ${JSON.stringify(counts)}`,
      );
    }
  } finally {
    ending.abort();
  }
  for (const one of await workers) if (one.status === "rejected") throw one.reason;
  const nothingLeft = async (): Promise<boolean> => {
    await giveUpForeign();
    const { claims } = await cluster.claims.listClaims({ filter: { namespace } });
    return claims.every(({ workload, state }) => held.has(workload) || state >= ClaimState.CLAIM_STATE_RELEASED);
  };
  await until("everything to be let go", nothingLeft, 60_000).catch(explained);

  const losses = new Map<string, number>();
  const told = /newest commit has number (\d+), and \d+ was seen here: (\d+) commits? (?:is|are) missing/g;
  for (const [, newest = "", lost] of cluster.output().matchAll(told))
    losses.set(newest, Math.max(losses.get(newest) ?? 0, Number(lost)));
  const calls = await cluster.backend.client.record();
  const still = await persistently("the claims", () => cluster.claims.listClaims({ filter: { namespace } }));
  const silent = still.claims
    .filter(({ workload, state }) => held.has(workload) && state !== ClaimState.CLAIM_STATE_ACTIVE)
    .map((one) => `${one.workload} is ${stateName(one)}: ${one.waitingFor}`);
  const runningIds = new Set(running.map((id) => ids.get(id)));
  const taken = calls.filter(
    ({ seq, method, volume }) => seq > began && runningIds.has(volume) && /Unpublish|Unstage/.test(method),
  );
  return {
    seed,
    rounds: rounds.length,
    ...counts,
    losses: losses.size,
    lost: [...losses.values()].reduce((sum, lost) => sum + lost, 0),
    nextGrant,
    violations: (await cluster.backend.client.violations()).map((one) => JSON.stringify(one)),
    doubles: doubleWriters(calls),
    taken: taken.map(({ seq, method, volume }) => `call ${seq}: ${method} of ${volume}`),
    silent,
  };
};

interface Stopped {
  back(): Promise<void>;
}

interface FailOverDeps {
  readonly master: RedisServer;
  readonly servers: readonly RedisServer[];
  readonly sentinels: RedisSentinels;
  readonly random: ReturnType<typeof createSeededRandom>;
}

/** Answers what has to come back. */
const failOver = async (
  kind: FailoverKind,
  { master, servers, sentinels, random }: FailOverDeps,
): Promise<readonly Stopped[]> => {
  /** Sooner than the sentinels would do it. */
  const follow = async (server: RedisServer, next: RedisServer): Promise<void> => {
    await server.restart();
    await (await server.admin()).call("REPLICAOF", "127.0.0.1", next.port);
  };
  if (kind === "kill") {
    await master.kill();
    await sentinels.settled(master);
    return [{ back: async () => follow(master, await sentinels.settled(master)) }];
  }
  if (kind === "freeze") {
    master.signal("SIGSTOP");
    await sentinels.settled(master);
    return [{ back: async () => master.signal("SIGCONT") }];
  }
  const [behind, acknowledging] = random.some(
    servers.filter((server) => server !== master),
    2,
  );
  if (behind === undefined || acknowledging === undefined) throw new Error("there are two replicas");
  // It follows nobody for a while, so that it lacks what the other one acknowledges. A stopped one would read on from its socket.
  await (await behind.admin()).call("REPLICAOF", "127.0.0.1", 1);
  await pause(300 + random.integer(500));
  await Promise.all([master.kill(), acknowledging.kill()]);
  const next = await sentinels.settled(master);
  // It takes no writes without a replica.
  await follow(acknowledging, next);
  return [{ back: async () => follow(master, await sentinels.settled(master)) }];
};

/** Answers who is the master then: a host that is busy makes sentinels choose once more. */
const online = async (sentinels: RedisSentinels, count: number): Promise<RedisServer> =>
  await until(
    "the replicas to be there again",
    async () => {
      const master = await sentinels.settled();
      const told = await (await master.admin()).info("replication");
      return (told.match(/state=online/g) ?? []).length === count ? master : undefined;
    },
    60_000,
  );
