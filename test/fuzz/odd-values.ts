/** Values at which readers went wrong elsewhere: ends of ranges, texts that look like something else, and texts that are too long by one. */
import type { SeededRandom } from "../local-driver/seeded-random.ts";

const numbers = [
  ...[-1, 0, 1, 0.5, -0, 2, 127, 128, 255, 256, 4096, 4097],
  ...[2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 63, -(2 ** 31), -(2 ** 53)],
  ...[1e21, 1e308, 5e-324, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
];
const bigints = [-1n, 0n, 1n, 127n, 2n ** 31n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n - 1n, -(2n ** 63n)];
const texts = [
  ...["", " ", ".", "..", "../../etc/passwd", "/", "//", "a/b", "a//b", "/etc", "~", "~delete/p/e", "-", "a.", ".a"],
  ...[
    "\0",
    "a\0b",
    "\n",
    "a\nb",
    "\u001b[31m",
    "\u0085",
    "\u2028",
    "\u202e",
    "\ufeffa",
    "\ud800",
    "é",
    "e\u0301",
    "İ",
    "ß",
  ],
  ...["__proto__", "constructor", "toString", "hasOwnProperty", "null", "undefined", "NaN", "true", "-1", "0", "1e999"],
  ...["A", "a,b", "a=b", "a:b", "%2e%2e", "%00", "'", '"', "`", "{{x}}", "*", "?", "@1", "secret:x", "file:x/../y"],
  ...["a".repeat(63), "a".repeat(64), "a".repeat(65), "a".repeat(128), "a".repeat(129), "a".repeat(257)],
  ...["é".repeat(64), "é".repeat(65), "\u{1d4b3}".repeat(33), "a".repeat(4096), "a".repeat(4097)],
];

export const oddNumber = (random: SeededRandom): number => random.pick(numbers);
export const oddBigint = (random: SeededRandom): bigint => random.pick(bigints);
export const oddText = (random: SeededRandom, was = ""): string => {
  const odd = random.pick(texts);
  if (random.chance(0.5)) return odd;
  const at = random.integer(was.length + 1);
  return was.slice(0, at) + odd + was.slice(at + random.integer(3));
};

/** What JSON can hold, of any kind. */
export const oddJson = (random: SeededRandom): unknown =>
  random.pick<() => unknown>([
    () => null,
    () => oddNumber(random),
    () => oddText(random),
    () => random.chance(0.5),
    () => [],
    () => ({}),
    () => [oddText(random)],
    () => ({ [oddText(random)]: oddNumber(random) }),
  ])();
