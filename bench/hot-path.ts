import type { Product } from "./product.ts";
import { readCounter } from "./support/counters.ts";
import { type CpuTimes, cpuBetween, cpuTimesOf } from "./support/cpu.ts";
import { millisecondsOf, run, type Sample } from "./support/load.ts";
import type { BenchRedis } from "./support/redis.ts";
import { type Spread, spreadOf } from "./support/spread.ts";
import type { Subject } from "./support/subject.ts";

export type Verb = "claim" | "release";
const verbs: readonly Verb[] = ["claim", "release"];

export interface HotPathPlan {
  /** Volumes claimed and released in a round, one at a time. */
  readonly volumes: number;
  readonly rounds: number;
}

export interface Latency {
  /** What a caller waits, without what the plugins took of it. */
  readonly overhead: Spread;
  readonly total: Spread;
  readonly pluginMs: Spread;
  readonly pluginCalls: number;
}

export interface HotPath {
  readonly floor: Spread;
  readonly product: Latency;
  /** Of the medians. */
  readonly ratio: number;
  /** Each for one claim (or release), background work included. */
  readonly commits: number;
  readonly redisCommands: Readonly<Record<string, number>>;
  readonly journalSyncs: number | undefined;
  readonly cpuMs: {
    readonly floor: Readonly<Record<string, number>>;
    readonly product: Readonly<Record<string, number>>;
  };
}

interface Collected {
  readonly floor: number[];
  readonly product: { readonly total: number; readonly plugin: number; readonly calls: number }[];
  readonly syncs: (number | undefined)[];
  readonly commands: Map<string, number>;
  readonly cpu: CpuTimes[];
  readonly floorCpu: CpuTimes[];
}

const meanOf = (records: readonly CpuTimes[], operations: number): CpuTimes => {
  const names = [...new Set(records.flatMap((each) => Object.keys(each)))];
  const total = (name: string): number => records.reduce((sum, each) => sum + (each[name] ?? 0), 0);
  return Object.fromEntries(names.map((name) => [name, total(name) / operations]));
};

const syncsOf = async ({ agentAdmins }: Product): Promise<number | undefined> => {
  const counts = await Promise.all(agentAdmins.map((admin) => readCounter(admin, "holdfast_journal_syncs")));
  return counts.reduce((sum, count) => (sum === undefined || count === undefined ? undefined : sum + count), 0);
};

const looks = 3;

/** A turn of one side: long enough to find it awake, and short beside what the machine takes to become faster or slower. */
const turnOf = 8;

/** Turns of the floor and of the product alternate, so that a busy moment of the machine hits both. */
export const measureHotPath = async (
  floor: Subject,
  product: Product,
  redis: BenchRedis,
  { volumes, rounds }: HotPathPlan,
): Promise<Readonly<Record<Verb, HotPath>>> => {
  const indexes = Array.from({ length: volumes }, (_, index) => index);
  const empty = (): Collected => ({ floor: [], product: [], syncs: [], commands: new Map(), cpu: [], floorCpu: [] });
  const collected: Record<Verb, Collected> = { claim: empty(), release: empty() };

  /** Every volume once on either side, and what each side had used by then. */
  const turns = async (verb: Verb): Promise<readonly Sample[]> => {
    const into = collected[verb];
    const samples: Sample[] = [];
    const [syncs, cpu, floorCpu] = [await syncsOf(product), await cpuTimesOf(product), await cpuTimesOf(floor)];
    for (let at = 0; at < volumes; at += turnOf) {
      const some = indexes.slice(at, at + turnOf);
      into.floor.push(...(await run(some, 1, floor[verb])).samples.map(millisecondsOf));
      samples.push(...(await run(some, 1, product[verb])).samples);
    }
    into.cpu.push(cpuBetween(cpu, await cpuTimesOf(product)));
    into.floorCpu.push(cpuBetween(floorCpu, await cpuTimesOf(floor)));
    const after = await syncsOf(product);
    into.syncs.push(after === undefined || syncs === undefined ? undefined : after - syncs);
    return samples;
  };
  const warmUp = async (): Promise<void> => {
    for (const subject of [floor, product]) for (const verb of verbs) await run(indexes, 4, subject[verb]);
  };

  await warmUp();
  for (let round = 0; round < rounds; round += 1) {
    const loads: [Verb, readonly Sample[]][] = [];
    for (const verb of verbs) loads.push([verb, await turns(verb)]);
    const times = await product.callTimes();
    for (const [verb, samples] of loads)
      for (const sample of samples) {
        const { calls, ms } = times.of(product.externalId(sample.index), sample);
        collected[verb].product.push({ total: millisecondsOf(sample), plugin: ms, calls });
      }
  }
  // Apart, since watching Redis costs time. What goes on in the background adds now and then: the look with the fewest counts.
  for (let look = 0; look < looks; look += 1)
    for (const verb of verbs) {
      const act = async (): Promise<void> => void (await run(indexes, 1, product[verb]));
      const seen = new Map([...(await redis.commandsDuring(act))].map(([name, count]) => [name, count / volumes]));
      const { commands } = collected[verb];
      if (commands.size === 0 || commitsIn(seen) < commitsIn(commands)) {
        commands.clear();
        for (const [name, count] of seen) commands.set(name, count);
      }
    }
  return { claim: summaryOf(collected.claim), release: summaryOf(collected.release) };
};

/** Whatever record they write. */
const commitsIn = (commands: ReadonlyMap<string, number>): number =>
  [...commands].reduce((sum, [name, count]) => (name.endsWith("_commit") ? sum + count : sum), 0);

const summaryOf = ({ floor, product, syncs, commands, cpu, floorCpu }: Collected): HotPath => {
  const operations = product.length;
  const overhead = spreadOf(product.map(({ total, plugin }) => total - plugin));
  const floorSpread = spreadOf(floor);
  return {
    floor: floorSpread,
    product: {
      overhead,
      total: spreadOf(product.map(({ total }) => total)),
      pluginMs: spreadOf(product.map(({ plugin }) => plugin)),
      pluginCalls: product.reduce((sum, { calls }) => sum + calls, 0) / operations,
    },
    ratio: overhead.p50 / floorSpread.p50,
    commits: commitsIn(commands),
    redisCommands: Object.fromEntries([...commands].sort(([a], [b]) => a.localeCompare(b))),
    journalSyncs: syncs.includes(undefined)
      ? undefined
      : syncs.reduce<number>((sum, each) => sum + (each ?? 0), 0) / operations,
    cpuMs: { floor: meanOf(floorCpu, floor.length), product: meanOf(cpu, operations) },
  };
};
