import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DriverError } from "./driver-error.ts";
import { blockBytes, imageBytes, maximumBytes, minimumBytes, notedBytes, roundDown, roundUp } from "./image-size.ts";

const size = fc.bigInt({ min: 0n, max: 1n << 45n });
const rules = fc.record({
  minimum: fc.constantFrom(...Object.values(minimumBytes)),
  usual: fc.bigInt({ min: 1n, max: 1n << 40n }),
  source: fc.oneof(
    fc.constant(0n),
    fc.bigInt({ min: 1n, max: 1n << 32n }).map((blocks) => blocks * blockBytes),
  ),
});
const range = fc.record({ requiredBytes: size, limitBytes: fc.oneof(fc.constant(0n), size) });

const codeOf = (act: () => unknown): string => {
  try {
    act();
  } catch (error) {
    if (error instanceof DriverError) return error.code;
    throw error;
  }
  return "OK";
};

describe("imageBytes", () => {
  test("is whole blocks within the range, or refuses because there are none", () => {
    fc.assert(
      fc.property(range, rules, (asked, limits) => {
        const { requiredBytes, limitBytes } = asked;
        const within = (bytes: bigint) =>
          bytes % blockBytes === 0n &&
          bytes >= requiredBytes &&
          bytes >= limits.minimum &&
          bytes >= limits.source &&
          bytes <= maximumBytes &&
          (limitBytes === 0n || bytes <= limitBytes);
        const least = roundUp([requiredBytes, limits.minimum, limits.source].reduce((a, b) => (a > b ? a : b)));
        if (within(least)) expect(within(imageBytes(asked, limits))).toBe(true);
        else expect(codeOf(() => imageBytes(asked, limits))).toBe("OUT_OF_RANGE");
      }),
    );
  });

  test("takes the least that does when a size or a source is given, else the usual one", () => {
    fc.assert(
      fc.property(size, rules, (requiredBytes, limits) => {
        fc.pre(requiredBytes <= maximumBytes && limits.source <= maximumBytes);
        const got = imageBytes({ requiredBytes, limitBytes: 0n }, limits);
        const least = roundUp([requiredBytes, limits.minimum, limits.source].reduce((a, b) => (a > b ? a : b)));
        const usual = roundUp(limits.usual) > least ? roundUp(limits.usual) : least;
        expect(got).toBe(requiredBytes > 0n || limits.source > 0n ? least : usual);
      }),
    );
  });

  const plain = { minimum: minimumBytes.ext4, usual: 64n << 20n, source: 0n };
  test.each([
    ["a limit below the usual size", { requiredBytes: 0n, limitBytes: (32n << 20n) + 7n }, 32n << 20n],
    ["a size below the minimum", { requiredBytes: 1n, limitBytes: 0n }, 16n << 20n],
    ["an exact size", { requiredBytes: 32n << 20n, limitBytes: 32n << 20n }, 32n << 20n],
    ["the largest", { requiredBytes: maximumBytes, limitBytes: 0n }, maximumBytes],
  ])("%s", (_, asked, expected) => {
    expect(imageBytes(asked, plain)).toBe(expected);
  });

  test.each([
    ["a limit below the minimum", { requiredBytes: 0n, limitBytes: 1n << 20n }, plain, /below 16777216, the least/],
    [
      "more than the most",
      { requiredBytes: maximumBytes + 1n, limitBytes: 0n },
      plain,
      /above 17592186040320, the most/,
    ],
    [
      "an exact size between two blocks",
      { requiredBytes: (32n << 20n) + 1n, limitBytes: (32n << 20n) + 1n },
      plain,
      /no multiple of 4096 lies between required_bytes 33554433 and limit_bytes 33554433/,
    ],
    [
      "a limit below the source",
      { requiredBytes: 0n, limitBytes: 32n << 20n },
      { ...plain, source: 64n << 20n },
      /below 67108864, the size of the source/,
    ],
  ])("%s is refused and says which bound", (_, asked, limits, expected) => {
    expect(() => imageBytes(asked, limits)).toThrow(expected);
    expect(codeOf(() => imageBytes(asked, limits))).toBe("OUT_OF_RANGE");
  });
});

test("a directory notes what is asked for, and no less than its source", () => {
  expect(notedBytes({ requiredBytes: 0n, limitBytes: 0n }, 0n)).toBe(0n);
  expect(notedBytes({ requiredBytes: 5001n, limitBytes: 5001n }, 0n)).toBe(5001n);
  expect(notedBytes({ requiredBytes: 1n, limitBytes: 0n }, 70n)).toBe(70n);
  expect(() => notedBytes({ requiredBytes: 0n, limitBytes: 69n }, 70n)).toThrow(/limit_bytes 69 is below 70/);
});

test("rounding goes to the nearest whole block of its side, and leaves whole blocks alone", () => {
  fc.assert(
    fc.property(size, (bytes) => {
      expect(roundUp(bytes) - bytes).toBeGreaterThanOrEqual(0n);
      expect(roundUp(bytes) - bytes).toBeLessThan(blockBytes);
      expect(bytes - roundDown(bytes)).toBeGreaterThanOrEqual(0n);
      expect(bytes - roundDown(bytes)).toBeLessThan(blockBytes);
      expect(roundDown(roundUp(bytes))).toBe(roundUp(bytes));
    }),
  );
});
