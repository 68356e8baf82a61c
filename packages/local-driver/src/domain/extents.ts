import { greatest, least, roundDown, roundUp } from "./image-size.ts";

export interface Extent {
  readonly offset: bigint;
  readonly length: bigint;
}

/** Ranges of bytes in an image, widened to whole blocks. All lists are in ascending order, without overlaps. */

/** Together, in whole blocks, from the block that `from` lies in up to `end`. */
export function wholeBlocks(extents: readonly Extent[], from: bigint, end: bigint): readonly Extent[] {
  const widened = extents
    .map(({ offset, length }) => ({
      start: greatest(roundDown(offset), roundDown(from)),
      stop: least(roundUp(offset + length), end),
    }))
    .filter(({ start, stop }) => start < stop && stop > from)
    .toSorted((a, b) => (a.start < b.start ? -1 : 1));
  const merged: { start: bigint; stop: bigint }[] = [];
  for (const each of widened) {
    const last = merged.at(-1);
    if (last === undefined || last.stop < each.start) merged.push({ ...each });
    else last.stop = greatest(last.stop, each.stop);
  }
  return merged.map(({ start, stop }) => ({ offset: start, length: stop - start }));
}

/** The same ranges in pieces of at most `most` bytes. */
export function* inPieces(ranges: Iterable<Extent>, most: bigint): Generator<Extent> {
  for (const { offset, length } of ranges)
    for (let at = 0n; at < length; at += most) yield { offset: offset + at, length: least(most, length - at) };
}
