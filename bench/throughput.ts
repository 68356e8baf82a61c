import type { Verb } from "./hot-path.ts";
import { cpuBetween, cpuTimesOf } from "./support/cpu.ts";
import { millisecondsOf, run } from "./support/load.ts";
import { type Spread, spreadOf } from "./support/spread.ts";
import type { Subject } from "./support/subject.ts";

export interface Throughput {
  readonly inFlight: number;
  readonly perSecond: number;
  readonly ms: Spread;
  /** Of the controller and the agents, for each. */
  readonly cpuMs: number;
}

export interface ThroughputPlan {
  readonly inFlight: number;
  /** Volumes claimed, then released, in a round. */
  readonly volumes: number;
  readonly rounds: number;
}

type PerVerb<T> = Readonly<Record<Verb, T>>;

interface Tally {
  readonly ms: number[];
  seconds: number;
  cpuMs: number;
}

const empty = (): PerVerb<Tally> => ({
  claim: { ms: [], seconds: 0, cpuMs: 0 },
  release: { ms: [], seconds: 0, cpuMs: 0 },
});

/** Everything is claimed, then everything is released, so many at a time; plugin time is part of it. */
export const measureThroughput = async (
  floor: Subject,
  product: Subject,
  { inFlight, volumes, rounds }: ThroughputPlan,
): Promise<{ readonly floor: PerVerb<Throughput>; readonly product: PerVerb<Throughput> }> => {
  const indexes = Array.from({ length: volumes }, (_, index) => index);
  const tallies = { floor: empty(), product: empty() };
  const turn = async (subject: Subject, into: PerVerb<Tally>): Promise<void> => {
    for (const verb of ["claim", "release"] as const) {
      const before = await cpuTimesOf(subject);
      const { samples, seconds } = await run(indexes, inFlight, subject[verb]);
      const { controller = 0, agent = 0 } = cpuBetween(before, await cpuTimesOf(subject));
      into[verb].ms.push(...samples.map(millisecondsOf));
      into[verb].seconds += seconds;
      into[verb].cpuMs += controller + agent;
    }
  };
  for (let round = 0; round < rounds; round += 1) {
    await turn(floor, tallies.floor);
    await turn(product, tallies.product);
  }
  const summary = ({ ms, seconds, cpuMs }: Tally): Throughput => ({
    inFlight,
    perSecond: ms.length / seconds,
    ms: spreadOf(ms),
    cpuMs: cpuMs / ms.length,
  });
  const summaries = ({ claim, release }: PerVerb<Tally>): PerVerb<Throughput> => ({
    claim: summary(claim),
    release: summary(release),
  });
  return { floor: summaries(tallies.floor), product: summaries(tallies.product) };
};
