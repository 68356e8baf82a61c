import { createCipheriv, createHash } from "node:crypto";

export interface SeededRandom {
  /** In [0, 1). */
  fraction(): number;
  /** In [0, below). */
  integer(below: number): number;
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
  some<T>(from: readonly T[], count: number): readonly T[];
}

/** mulberry32: the same seed, the same numbers, on every machine. */
export const createSeededRandom = (seed: number): SeededRandom => {
  let state = seed >>> 0;
  const fraction = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const integer = (below: number): number => Math.floor(fraction() * below);
  const pick = <T>(from: readonly T[]): T => {
    const found = from[integer(from.length)];
    if (found === undefined) throw new Error("nothing to pick from");
    return found;
  };
  return {
    fraction,
    integer,
    chance: (probability) => fraction() < probability,
    pick,
    some: (from, count) => {
      const left = [...from];
      return Array.from({ length: Math.min(count, left.length) }, () => left.splice(integer(left.length), 1)).flat();
    },
  };
};

/** HOLDFAST_SEED replays a run; otherwise every run is another one. */
export const seedOfRun = (): number => {
  const given = process.env["HOLDFAST_SEED"];
  if (given === undefined || given === "") return Math.floor(Math.random() * 2 ** 31);
  const seed = Number(given);
  if (!Number.isSafeInteger(seed)) throw new Error(`HOLDFAST_SEED=${given} is no whole number`);
  return seed;
};

/** Bytes that only this seed gives, so that a file with another one's contents is found out. */
export const patternOf = (seed: number, length: number): Buffer => {
  const key = createHash("md5").update(String(seed)).digest();
  return createCipheriv("aes-128-ctr", key, Buffer.alloc(16)).update(Buffer.alloc(length));
};
