import { expect, test } from "vitest";
import { createStrangerCalls } from "./stranger-calls.ts";

const made = () => {
  let now = 0;
  const calls = createStrangerCalls(() => now);
  const refused = (address: string): string | undefined => {
    try {
      calls.begin(address)();
      return undefined;
    } catch (error) {
      return String(error);
    }
  };
  const pass = (ms: number): void => {
    now += ms;
  };
  return { calls, refused, pass };
};

const five = [1, 2, 3, 4, 5];

test("[SC1] five calls a second and address, whatever others do", () => {
  const { refused, pass } = made();
  for (const _ of five) expect(refused("10.0.0.1")).toBeUndefined();
  expect(refused("10.0.0.1")).toContain("10.0.0.1 has made 5 calls without a certificate in this second");
  expect(refused("10.0.0.2")).toBeUndefined();
  pass(999);
  expect(refused("10.0.0.1")).toContain("in this second");
  pass(1);
  expect(refused("10.0.0.1")).toBeUndefined();
});

test("[SC2] five calls open at once, however long ago they began", () => {
  const { calls, refused, pass } = made();
  const ends = five.map(() => calls.begin("10.0.0.1"));
  pass(3_600_000);
  expect(refused("10.0.0.1")).toContain("has 5 calls open without a certificate");
  expect(refused("10.0.0.2")).toBeUndefined();
  ends[0]?.();
  expect(refused("10.0.0.1")).toBeUndefined();
});

test.each([
  ["2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"],
  ["[2001:db8:1:2::1]", "2001:0DB8:0001:0002::9"],
  ["2001:db8::1", "2001:db8:0:0:5::"],
  ["fe80::1%eth0", "fe80::2"],
  ["::ffff:10.0.0.1", "10.0.0.1"],
])("[SC3] %s and %s are one address", (one, other) => {
  const { refused } = made();
  for (const _ of five) expect(refused(one)).toBeUndefined();
  expect(refused(other)).toContain("in this second");
});

test.each([
  ["2001:db8:1:2::1", "2001:db8:1:3::1"],
  ["::1", "1::"],
  ["10.0.0.1", "10.0.0.11"],
])("%s and %s are two", (one, other) => {
  const { refused } = made();
  for (const _ of five) refused(one);
  expect(refused(other)).toBeUndefined();
});
