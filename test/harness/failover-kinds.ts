/** What becomes of the servers behind a store, one kind a function. */
import type { SeededRandom } from "../local-driver/seeded-random.ts";
import { endOfLog } from "../support/redis-log.ts";
import type { RedisServer } from "../support/redis-server.ts";
import type { RedisServers } from "../support/redis-servers.ts";
import type { RedisWays } from "../support/redis-ways.ts";
import { until } from "./until.ts";

export const failoverKinds = ["kill", "freeze", "lose", "cut-one", "cut-replicas", "older-file", "flush"] as const;
export type FailoverKind = (typeof failoverKinds)[number];

export interface FailoverWorld {
  readonly store: RedisServers;
  readonly master: RedisServer;
  /** Those of the second controller. */
  readonly ways: RedisWays;
  readonly random: SeededRandom;
  /** What docs/total-loss.md says. */
  readonly recover: () => Promise<void>;
}

export interface Failover {
  /** From when on the next grant is waited for. */
  readonly at: number;
  /** Whatever is away comes back. Answers how many acknowledged commits are lost, at least. */
  back(): Promise<number>;
}

type Act = (world: FailoverWorld) => Promise<Failover>;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const metaOf = async (server: RedisServer, field: string): Promise<string> =>
  (await (await server.admin()).hget("{hf:default}meta", field)) ?? "";

/** The number of its newest commit. */
const commitsOf = async (server: RedisServer): Promise<number> => Number(await metaOf(server, "commits"));

/** At least; a vetting in between raises the number by far more than the commits. */
const lostBetween = (kept: number, newest: number): number => (newest - kept > 1_000 ? 1 : newest - kept);

/** Until controllers have vetted the process that runs now. */
const vetted = async (server: RedisServer): Promise<unknown> =>
  await until("the vetting", async () => {
    const told = await (await server.admin()).info("server");
    return told.includes(`run_id:${await metaOf(server, "vettedRunId").catch(() => "none")}`);
  });

/** Until the master has so many more commits; a store on which nothing can be granted gets none. */
const moreCommits = async (master: RedisServer, since: number, wanted: number): Promise<number> => {
  const enough = async (): Promise<number | undefined> => {
    const now = await commitsOf(master);
    return now - since >= wanted ? now : undefined;
  };
  return await until("more commits", enough, 3_000).catch(() => commitsOf(master));
};

const othersOf = ({ store, master }: FailoverWorld): readonly RedisServer[] =>
  [store.master, ...store.replicas].filter((server) => server !== master);

const restartBehind = async (store: RedisServers, server: RedisServer, next: RedisServer): Promise<void> => {
  await server.restart();
  await store.follow(server, next);
};

/** The master is killed, and comes back as a replica. */
const kill: Act = async ({ store, master }) => {
  const at = performance.now();
  await master.kill();
  await store.settled(master);
  const back = async (): Promise<number> => {
    await restartBehind(store, master, await store.settled(master));
    return 0;
  };
  return { at, back };
};

/** The master is stopped and goes on as what it was, until it is told that it is a replica. */
const freeze: Act = async ({ store, master, random }) => {
  const at = performance.now();
  master.signal("SIGSTOP");
  await store.settled(master);
  const back = async (): Promise<number> => {
    master.signal("SIGCONT");
    // Those that choose the master tell it too, ten seconds later.
    if (random.chance(0.8)) {
      await pause(random.integer(1_000));
      await store.follow(master, await store.settled(master));
    }
    return 0;
  };
  return { at, back };
};

/** The master is killed with the only replica that is not behind. */
const lose: Act = async (world) => {
  const { store, master, random } = world;
  const [behind, acknowledging] = random.some(othersOf(world), 2);
  if (behind === undefined || acknowledging === undefined) throw new Error("there are two replicas");
  await store.fallBehind(behind);
  const kept = await commitsOf(behind);
  const newest = await moreCommits(master, kept, 1 + random.integer(30));
  const at = performance.now();
  await Promise.all([master.kill(), acknowledging.kill()]);
  const next = await store.settled(master);
  // It takes no writes without a replica.
  await restartBehind(store, acknowledging, next);
  const back = async (): Promise<number> => {
    await restartBehind(store, master, await store.settled(master));
    return lostBetween(kept, newest);
  };
  return { at, back };
};

/** One controller does not reach the master; the other one does, and nothing fails over. */
const cutOne: Act = async ({ master, ways, random }) => {
  const at = performance.now();
  ways.lose(master, true);
  const back = async (): Promise<number> => {
    await pause(random.integer(5_000));
    ways.lose(master, false);
    return 0;
  };
  return { at, back };
};

/**
 * Another master is chosen while the one before goes on to answer, and half of the times to acknowledge: it was told to take writes without a
 * replica. One controller stays with it at first; most often the other one finds the new one at once.
 */
const cutReplicas: Act = async (world) => {
  const { store, master, ways, random } = world;
  const { cutOff } = store;
  if (cutOff === undefined) throw new Error("these servers cannot be cut from each other");
  if (random.chance(0.5)) await (await master.admin()).config("SET", "min-replicas-to-write", "0");
  await cutOff(master, true);
  const [other = master] = othersOf(world);
  const kept = await commitsOf(other);
  await store.settled(master);
  const at = performance.now();
  if (random.chance(0.8)) ways.cut(master);
  const back = async (): Promise<number> => {
    await pause(random.integer(3_000));
    const newest = await commitsOf(master);
    await (await master.admin()).config("SET", "min-replicas-to-write", "1");
    await cutOff(master, false);
    await store.follow(master, await store.settled(master));
    return lostBetween(kept, newest);
  };
  return { at, back };
};

/**
 * The master is killed, and started on a file that ends earlier: before the failover, if it is fast enough. In some rounds the file ends before
 * a vetting, whose generation the nodes have promised.
 */
const olderFile: Act = async ({ store, master, random }) => {
  const end = await endOfLog(master);
  if (random.chance(0.4)) {
    await master.kill();
    await master.restart();
    await vetted(master).catch(() => undefined);
  }
  const kept = await commitsOf(master);
  const newest = await moreCommits(master, kept, 1 + random.integer(30));
  const at = performance.now();
  await master.kill();
  await end.cutBack();
  await master.restart();
  const back = async (): Promise<number> => {
    const now = await store.settled();
    // Another one was chosen after all, and nothing is lost.
    if (now !== master) await store.follow(master, now);
    return now === master ? lostBetween(kept, newest) : 0;
  };
  return { at, back };
};

/** Everything is lost, by a word to the master. */
const flush: Act = async ({ master, random, recover }) => {
  const at = performance.now();
  await (await master.admin()).call("FLUSHALL");
  await pause(random.integer(1_000));
  await recover();
  // How many more there were is not worth counting.
  return { at, back: async () => 1 };
};

export const failOver: Readonly<Record<FailoverKind, Act>> = {
  kill,
  freeze,
  lose,
  "cut-one": cutOne,
  "cut-replicas": cutReplicas,
  "older-file": olderFile,
  flush,
};
