/** Where each part stands in a state, and which states differ by names alone. */
import type { State, Symmetry } from "../search/search.ts";
import type { Backend, Budget, Memory, StoreFile } from "./model-types.ts";

export const places = { store: 0, memory: 1, call: 3, agent: 5, gate: 7, host: 9, backend: 11, budget: 12 } as const;
export const numbers = [1, 2] as const;
export type Number2 = (typeof numbers)[number];
export const at = (place: keyof typeof places, n: Number2): number => places[place] + n - 1;
/** Of the controller, gate or node that the text names first. */
export const numberOf = (text: string): Number2 => (/[cgn]([12])/.exec(text)?.[1] === "1" ? 1 : 2);

export const part = <T extends object>(state: State, place: number): T => state[place] as T;
export const read = (state: State) => {
  const { record } = part<StoreFile>(state, places.store);
  return { record, left: part<Budget>(state, places.budget), backend: part<Backend>(state, places.backend) };
};
/** undefined = there was the last one. */
export const afterMishap = (left: Budget): Budget | undefined => {
  const { mishaps } = left;
  if (mishaps === undefined) return left;
  return mishaps === 0 ? undefined : { ...left, mishaps: mishaps - 1 };
};
export const issuerOf = (n: Number2, { life }: Memory): string => `c${n}/${life}`;

const swap = (letters: string): ReadonlyMap<string, string> =>
  new Map([...letters].flatMap((l) => [[`${l}1`, `${l}2`] as const, [`${l}2`, `${l}1`] as const]));
const swappedPlaces: Readonly<Record<string, readonly (keyof typeof places)[]>> = {
  c: ["memory", "call", "agent"],
  g: ["gate"],
  n: ["host"],
};
export const symmetryOf = (letters: string): Symmetry => {
  const turned = Array.from({ length: places.budget + 1 }, (_, i) => i);
  for (const place of [...letters].flatMap((l) => swappedPlaces[l] ?? []))
    [turned[at(place, 1)], turned[at(place, 2)]] = [at(place, 2), at(place, 1)];
  return { names: swap(letters), places: turned };
};
