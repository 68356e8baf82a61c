import type { Product } from "./product.ts";
import { readCounter } from "./support/counters.ts";
import { type CpuTimes, cpuBetween, cpuTimesOf } from "./support/cpu.ts";
import { millisecondsOf, run, type Sample } from "./support/load.ts";
import type { BenchRedis } from "./support/redis.ts";
import { type Spread, spreadOf } from "./support/spread.ts";
import type { MeasuredSubject } from "./support/subject.ts";

export type Verb = "claim" | "release";
const verbs: readonly Verb[] = ["claim", "release"];

export interface HotPathPlan {
  /** Volumes claimed and released in a round, one at a time. */
  readonly volumes: number;
  /** Volumes beside them that are mounted all the time. */
  readonly standing: number;
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
  readonly floor: Latency;
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

interface Timed {
  readonly total: number;
  readonly plugin: number;
  readonly calls: number;
}

interface Side {
  readonly times: Timed[];
  readonly cpu: CpuTimes[];
}

interface Collected {
  readonly floor: Side;
  readonly product: Side;
  readonly syncs: (number | undefined)[];
  readonly commands: Map<string, number>;
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

/**
 * A turn of one side: long enough to find it awake, and short beside what the machine takes to become faster or slower. What it claims
 * it releases, so that the other side finds the mounts of the host as it left them.
 */
const turnOf = 8;

/** Turns of the floor and of the product alternate, so that a busy moment of the machine hits both. */
export const measureHotPath = async (
  floor: MeasuredSubject,
  product: Product,
  redis: BenchRedis,
  { volumes, standing, rounds }: HotPathPlan,
): Promise<Readonly<Record<Verb, HotPath>>> => {
  const indexes = Array.from({ length: volumes }, (_, index) => index);
  const side = (): Side => ({ times: [], cpu: [] });
  const empty = (): Collected => ({ floor: side(), product: side(), syncs: [], commands: new Map() });
  const collected: Record<Verb, Collected> = { claim: empty(), release: empty() };
  const sides = [
    { of: "floor", subject: floor },
    { of: "product", subject: product },
  ] as const;

  /** Every volume once on either side; answers what of it is known only once the plugins' notes are read. */
  const round = async () => {
    const loads: { readonly of: "floor" | "product"; readonly verb: Verb; readonly samples: readonly Sample[] }[] = [];
    for (let at = 0; at < volumes; at += turnOf)
      for (const { of, subject } of sides)
        for (const verb of verbs) {
          const before = await cpuTimesOf(subject);
          const { samples } = await run(indexes.slice(at, at + turnOf), 1, subject[verb]);
          collected[verb][of].cpu.push(cpuBetween(before, await cpuTimesOf(subject)));
          loads.push({ of, verb, samples });
        }
    return loads;
  };
  const warmUp = async (): Promise<void> => {
    for (const { subject } of sides) for (const verb of verbs) await run(indexes, 4, subject[verb]);
  };

  // A host where nothing else is mounted is rare, and the product looks at what is.
  await run(
    Array.from({ length: standing }, (_, index) => volumes + index),
    4,
    product.claim,
  );
  await warmUp();
  for (let done = 0; done < rounds; done += 1) {
    const loads = await round();
    const noted = { floor: await floor.callTimes(), product: await product.callTimes() };
    for (const { of, verb, samples } of loads)
      for (const sample of samples) {
        const { externalId } = of === "floor" ? floor : product;
        const { calls, ms } = noted[of].of(externalId(sample.index), sample);
        collected[verb][of].times.push({ total: millisecondsOf(sample), plugin: ms, calls });
      }
  }
  // Apart, since watching Redis costs time. What goes on in the background adds now and then: the look with the fewest counts.
  for (let look = 0; look < looks; look += 1)
    for (const verb of verbs) {
      const act = async (): Promise<void> => void (await run(indexes, 1, product[verb]));
      const syncs = await syncsOf(product);
      const seen = new Map([...(await redis.commandsDuring(act))].map(([name, count]) => [name, count / volumes]));
      const after = await syncsOf(product);
      const { commands } = collected[verb];
      collected[verb].syncs.push(after === undefined || syncs === undefined ? undefined : (after - syncs) / volumes);
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

const latencyOf = ({ times }: Side): Latency => ({
  overhead: spreadOf(times.map(({ total, plugin }) => total - plugin)),
  total: spreadOf(times.map(({ total }) => total)),
  pluginMs: spreadOf(times.map(({ plugin }) => plugin)),
  pluginCalls: times.reduce((sum, { calls }) => sum + calls, 0) / times.length,
});

const summaryOf = ({ floor: floorSide, product: productSide, syncs, commands }: Collected): HotPath => {
  const [floor, product] = [latencyOf(floorSide), latencyOf(productSide)];
  const counted = syncs.filter((each) => each !== undefined);
  return {
    floor,
    product,
    ratio: product.overhead.p50 / floor.overhead.p50,
    commits: commitsIn(commands),
    redisCommands: Object.fromEntries([...commands].sort(([a], [b]) => a.localeCompare(b))),
    journalSyncs: counted.length < syncs.length ? undefined : Math.min(...counted),
    cpuMs: {
      floor: meanOf(floorSide.cpu, floorSide.times.length),
      product: meanOf(productSide.cpu, productSide.times.length),
    },
  };
};
