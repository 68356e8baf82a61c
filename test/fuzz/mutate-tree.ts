/**
 * Changes of values that are built of fields, lists and leaves: messages as generated code has them, and JSON. One place of the tree is
 * changed, so that all around it stays valid and the reader goes as far as that place.
 */
import type { SeededRandom } from "../local-driver/seeded-random.ts";
import { oddBigint, oddJson, oddNumber, oddText } from "./odd-values.ts";

export interface TreeChange {
  readonly random: SeededRandom;
  /** JSON: a value may become one of another kind, a field may go, and one may come. A message keeps the types of its fields. */
  readonly json: boolean;
  /** Leaves of the rest of the corpus, which fields may be swapped for. */
  readonly others: unknown;
}

type Container = unknown[] | Record<string, unknown>;
interface Place {
  readonly within: Container;
  readonly key: string | number;
}

const isContainer = (value: unknown): value is Container =>
  typeof value === "object" && value !== null && !(value instanceof Uint8Array) && !(value instanceof Date);

const put = ({ within, key }: Place, value: unknown): void => {
  // A plain assignment of "__proto__" would set no field.
  Object.defineProperty(within, key, { value, writable: true, enumerable: true, configurable: true });
};
const at = ({ within, key }: Place): unknown => (within as Record<string | number, unknown>)[key];

const placesIn = (tree: unknown, found: Place[] = []): Place[] => {
  if (!isContainer(tree)) return found;
  for (const [key, value] of Object.entries(tree)) {
    found.push({ within: tree, key: Array.isArray(tree) ? Number(key) : key });
    placesIn(value, found);
  }
  return found;
};

const kindOf = (value: unknown): string => {
  if (value instanceof Uint8Array) return "bytes";
  if (value instanceof Date) return "date";
  return Array.isArray(value) ? "list" : value === null ? "null" : typeof value;
};

const odd = (value: unknown, random: SeededRandom): unknown => {
  switch (kindOf(value)) {
    case "string":
      return oddText(random, String(value));
    case "number":
      return oddNumber(random);
    case "bigint":
      return oddBigint(random);
    case "boolean":
      return value !== true;
    case "bytes":
      return Buffer.from(oddText(random, Buffer.from(value as Uint8Array).toString("latin1")), "latin1");
    case "date":
      return new Date(random.pick([0, -1, 1, 8.64e15, -62_135_596_800_000, 253_402_300_800_000]));
    case "list":
      return random.chance(0.5) ? [] : [...(value as unknown[]), ...(value as unknown[])];
    default:
      return isContainer(value) ? (random.chance(0.5) ? undefined : {}) : undefined;
  }
};

/** Entries of a map are fields too: one more key, as odd as they come. */
const extend = (container: Container, { random, json }: TreeChange): void => {
  const [sample] = Object.values(container);
  if (Array.isArray(container)) container.push(structuredClone(sample));
  else if (json || typeof sample === "string")
    put({ within: container, key: oddText(random) || "x" }, json ? oddJson(random) : oddText(random, String(sample)));
};

const changeOnce = (tree: Container, change: TreeChange): void => {
  const { random, json, others } = change;
  const places = placesIn(tree);
  if (places.length === 0) return;
  const place = random.pick(places);
  const value = at(place);
  const replace = (): void => put(place, odd(value, random));
  const swap = (): void => {
    const from = random.chance(0.5) ? places : placesIn(others);
    const alike = from.map(at).filter((one) => kindOf(one) === kindOf(value) && one !== value);
    if (alike.length === 0) replace();
    else put(place, structuredClone(random.pick(alike)));
  };
  const addTo = (): void => {
    const containers = places.map(at).filter(isContainer);
    if (containers.length === 0) replace();
    else extend(random.pick(containers), change);
  };
  const remove = (): void => {
    if (Array.isArray(place.within)) place.within.splice(Number(place.key), 1);
    else if (json) put(place, undefined);
    else replace();
  };
  const changes = [replace, replace, swap, addTo, remove];
  const ofJson = [() => put(place, oddJson(random)), () => extend(tree, change)];
  random.pick(json ? [...changes, ...ofJson] : changes)();
};

/** A copy with 1 to 3 changes; sometimes with none, so that the corpus itself stays accepted. */
export const otherTree = <T>(tree: T, change: TreeChange): T => {
  const copy = structuredClone(tree);
  const changes = change.random.pick([0, 1, 1, 1, 1, 2, 3]);
  for (let done = 0; isContainer(copy) && done < changes; done += 1) changeOnce(copy, change);
  return copy;
};
