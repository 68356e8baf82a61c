import type { Verb } from "./hot-path.ts";
import { millisecondsOf, run } from "./support/load.ts";
import { type Spread, spreadOf } from "./support/spread.ts";
import type { Subject } from "./support/subject.ts";

export interface Throughput {
  readonly inFlight: number;
  readonly perSecond: number;
  readonly ms: Spread;
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
}

const empty = (): PerVerb<Tally> => ({ claim: { ms: [], seconds: 0 }, release: { ms: [], seconds: 0 } });

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
      const { samples, seconds } = await run(indexes, inFlight, subject[verb]);
      into[verb].ms.push(...samples.map(millisecondsOf));
      into[verb].seconds += seconds;
    }
  };
  for (let round = 0; round < rounds; round += 1) {
    await turn(floor, tallies.floor);
    await turn(product, tallies.product);
  }
  const summary = ({ ms, seconds }: Tally): Throughput => ({
    inFlight,
    perSecond: ms.length / seconds,
    ms: spreadOf(ms),
  });
  const summaries = ({ claim, release }: PerVerb<Tally>): PerVerb<Throughput> => ({
    claim: summary(claim),
    release: summary(release),
  });
  return { floor: summaries(tallies.floor), product: summaries(tallies.product) };
};
