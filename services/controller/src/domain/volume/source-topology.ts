/**
 * Where a volume may be made from a snapshot that not every place can use (CSI 1.13). Places are compared without regard to the case
 * of keys, as CSI wants it.
 */
import type { Segments, VolumeRecord, VolumeTopology } from "./volume.ts";

type Wanted = Pick<VolumeTopology, "required" | "preferred">;

/** What lies in both; undefined = a key has two values. */
const both = (a: Segments, b: Segments): Segments | undefined => {
  const merged: Record<string, string> = { ...a };
  for (const [key, value] of Object.entries(b)) {
    const known = Object.keys(a).find((name) => name.toLowerCase() === key.toLowerCase());
    if (known === undefined) merged[key] = value;
    else if (a[known] !== value) return undefined;
  }
  return merged;
};

const textOf = (place: Segments): string =>
  JSON.stringify(
    Object.entries(place)
      .map(([key, value]) => [key.toLowerCase(), value])
      .sort(),
  );

const distinct = (places: readonly Segments[]): readonly Segments[] => [
  ...new Map(places.map((place) => [textOf(place), place])).values(),
];

const inBoth = (asked: readonly Segments[], usable: readonly Segments[]): readonly Segments[] =>
  distinct(
    asked.flatMap((place) =>
      usable.flatMap((one): readonly Segments[] => {
        const shared = both(place, one);
        return shared === undefined ? [] : [shared];
      }),
    ),
  );

/** The places that were asked for, as far as the source can be used there; a source without places can be used everywhere. */
export const withinSource = ({ required, preferred }: Wanted, usable: readonly Segments[] = []): Wanted => {
  if (usable.length === 0) return { required, preferred };
  const wishes = inBoth(preferred, usable);
  return {
    required: required.length > 0 ? inBoth(required, usable) : distinct([...usable, ...wishes]),
    preferred: wishes,
  };
};

/** Where a volume that is yet to be made is wanted, and can be made. */
export const wantedPlaces = ({ topology, source }: Pick<VolumeRecord, "topology" | "source">): Wanted =>
  withinSource(topology, source?.usableFrom);

/** An asked place that the source can be used in. */
export const coversOne = (asked: readonly Segments[], usable: readonly Segments[]): boolean =>
  asked.length === 0 || usable.length === 0 || inBoth(asked, usable).length > 0;

/** For people: the keys in which no place that was asked for is one of the source's. */
export const differingKeys = (asked: readonly Segments[], usable: readonly Segments[]): readonly string[] => {
  const keys = [...new Set(usable.flatMap((place) => Object.keys(place)))];
  const valuesOf = (places: readonly Segments[], key: string) =>
    new Set(
      places.flatMap((place) =>
        Object.entries(place).flatMap(([name, value]) => (name.toLowerCase() === key.toLowerCase() ? [value] : [])),
      ),
    );
  return keys.flatMap((key) => {
    const [wanted, has] = [valuesOf(asked, key), valuesOf(usable, key)];
    return wanted.size > 0 && [...wanted].every((value) => !has.has(value))
      ? [`${key} is to be ${[...wanted].join(" or ")} and is ${[...has].join(" or ")}`]
      : [];
  });
};
