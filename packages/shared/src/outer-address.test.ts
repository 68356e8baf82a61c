import { expect, test } from "vitest";
import { outerAddress } from "./telemetry.ts";

const of = (address: string, internal = false) =>
  ({ address, internal, family: address.includes(":") ? "IPv6" : "IPv4" }) as const;

test.each([
  [[of("127.0.0.1", true), of("fe80::1"), of("fd00::7"), of("10.0.0.7")], "10.0.0.7"],
  [[of("::1", true), of("fe80::1"), of("fd00::7")], "fd00::7"],
  [[of("::1", true), of("fe80::1")], "127.0.0.1"],
])("the address that tells a host from others, of %j, is %s", (all, found) => {
  expect(outerAddress(all)).toBe(found);
});
