import fc from "fast-check";
import { expect, test } from "vitest";
import { inPieces, wholeBlocks } from "./extents.ts";

const block = 4096n;
const extent = fc.record({
  offset: fc.bigInt({ min: 0n, max: 40n * block }),
  length: fc.bigInt({ min: 1n, max: 6n * block }),
});
const extents = fc.array(extent, { maxLength: 12 });

/** Numbers of the blocks touched. */
const blocksOf = (list: readonly { readonly offset: bigint; readonly length: bigint }[]): Set<bigint> => {
  const found = new Set<bigint>();
  for (const { offset, length } of list)
    for (let at = offset / block; at * block < offset + length; at += 1n) found.add(at);
  return found;
};

test("whole blocks are exactly those touched between the start and the end, in order, with gaps between them", () => {
  fc.assert(
    fc.property(
      extents,
      fc.bigInt({ min: 0n, max: 50n * block }),
      fc.bigInt({ min: 1n, max: 48n }).map((count) => count * block),
      (list, from, end) => {
        const got = wholeBlocks(list, from, end);
        const wanted = [...blocksOf(list)].filter((at) => (at + 1n) * block > from && at * block < end);
        expect([...blocksOf(got)].toSorted((a, b) => Number(a - b))).toEqual(wanted.toSorted((a, b) => Number(a - b)));
        for (const [at, each] of got.entries()) {
          expect([each.offset % block, each.length % block]).toEqual([0n, 0n]);
          const before = got[at - 1];
          if (before !== undefined) expect(before.offset + before.length).toBeLessThan(each.offset);
        }
      },
    ),
  );
});

test("pieces cover the same blocks, none larger than asked", () => {
  fc.assert(
    fc.property(extents, fc.bigInt({ min: 1n, max: 5n }), (list, blocks) => {
      const ranges = wholeBlocks(list, 0n, 100n * block);
      const pieces = [...inPieces(ranges, blocks * block)];
      expect(blocksOf(pieces)).toEqual(blocksOf(ranges));
      expect(pieces.reduce((sum, { length }) => sum + length, 0n)).toBe(
        ranges.reduce((sum, { length }) => sum + length, 0n),
      );
      for (const { length } of pieces) expect(length).toBeLessThanOrEqual(blocks * block);
    }),
  );
});
