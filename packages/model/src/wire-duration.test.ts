import fc from "fast-check";
import { expect, test } from "vitest";
import { msOfDuration, wireDuration } from "./wire-duration.ts";

test("whole milliseconds come back as they went", () => {
  fc.assert(fc.property(fc.nat(315_576_000_000_000), (ms) => msOfDuration(wireDuration(ms)) === ms));
  expect(wireDuration(1500)).toEqual({ seconds: 1n, nanos: 500_000_000 });
});

test("a part of a millisecond counts as one", () => {
  expect(msOfDuration({ seconds: 2n, nanos: 1 })).toBe(2001);
  expect(wireDuration(0.2)).toEqual({ seconds: 0n, nanos: 1_000_000 });
});

test.each([
  { seconds: -1n, nanos: 0 },
  { seconds: 0n, nanos: -1 },
  { seconds: 0n, nanos: 1_000_000_000 },
  { seconds: 315_576_000_001n, nanos: 0 },
])("$seconds s and $nanos ns are no duration", (duration) => expect(msOfDuration(duration)).toBeUndefined());
