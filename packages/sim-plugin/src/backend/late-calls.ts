import { hashOf } from "./ids.ts";

/** Lateness as data: how long calls that change something take, and when in that time their work is done. */
export interface LateCalls {
  readonly seed: number;
  /** Of all calls, those that take `slowMs`; the others take `fastMs`. */
  readonly share: number;
  /** From, to. */
  readonly slowMs: readonly [number, number];
  readonly fastMs: readonly [number, number];
  /** As the call arrives, or as it is answered; either, drawn for each call, unless told. */
  readonly work?: "arrival" | "answer";
}

export interface Delay {
  readonly delayMs: number;
  /** The work is done before the delay. */
  readonly worksFirst: boolean;
}

/** The nth call about a thing takes as long in every run of a seed, whatever other calls come between. */
export const createDelays = ({ seed, share, slowMs, fastMs, work }: LateCalls): ((about: string) => Delay) => {
  const counts = new Map<string, number>();
  return (about) => {
    const count = (counts.get(about) ?? 0) + 1;
    counts.set(about, count);
    /** In [0, 1). */
    const draw = (what: string): number =>
      Number.parseInt(hashOf([seed, about, count, what]).slice(0, 8), 16) / 2 ** 32;
    const [from, to] = draw("slow") < share ? slowMs : fastMs;
    return {
      delayMs: Math.round(from + draw("time") * (to - from)),
      worksFirst: work === undefined ? draw("work") < 0.5 : work === "arrival",
    };
  };
};
