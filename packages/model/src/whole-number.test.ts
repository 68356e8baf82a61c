import { expect, test } from "vitest";
import { wholeNumber } from "./whole-number.ts";

test("an int64 becomes a number that goes back onto the wire", () => {
  expect(wholeNumber(5n)).toBe(5);
  expect(wholeNumber(0n)).toBe(0);
  expect(wholeNumber(2n ** 53n - 1n)).toBe(2 ** 53 - 1);
  for (const large of [2n ** 53n, 2n ** 63n - 1n]) expect(wholeNumber(large)).toBe(Number.MAX_SAFE_INTEGER);
});
