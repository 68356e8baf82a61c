import fc from "fast-check";
import { expect, test } from "vitest";
import { isHoldfastError } from "../errors/holdfast-error.ts";
import { formatAddress, isBeyondHost, parseAddress } from "./listen-address.ts";

test("every spelling of a unix address becomes the one with three slashes", () => {
  for (const text of ["unix:/run/x.sock", "unix:///run/x.sock"]) {
    expect(formatAddress(parseAddress(text))).toBe("unix:///run/x.sock");
  }
  expect(parseAddress("[::1]:80")).toEqual({ kind: "tcp", host: "[::1]", port: 80 });
});

test("bad addresses are named with what would be right", () => {
  const bad = [
    "",
    "x",
    "host:",
    ":80",
    "host:65536",
    "host:-1",
    "unix:relative",
    "unix://",
    "http://h:80",
    `unix:///${"x".repeat(107)}`,
  ];
  for (const text of bad) expect(() => parseAddress(text), text).toThrow(/has to be|holds at most/);
  expect(formatAddress(parseAddress(`unix:///${"x".repeat(106)}`))).toHaveLength(7 + 107);
});

test("what is parsed is formatted back to what parses the same, anything else is an invalid argument", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.stringMatching(/^(unix:\/\/\/[a-z]{1,9}|[a-z0-9.]{1,9}:\d{1,6})$/)),
      (text) => {
        try {
          const address = parseAddress(text);
          expect(parseAddress(formatAddress(address))).toEqual(address);
        } catch (error) {
          expect(isHoldfastError(error) && error.kind === "invalid").toBe(true);
        }
      },
    ),
  );
});

test("loopback is loopback only", () => {
  const beyond = (host: string) => isBeyondHost({ kind: "tcp", host, port: 1 });
  expect(["localhost", "127.0.0.1", "127.9.9.9", "[::1]"].map(beyond)).toEqual(Array(4).fill(false));
  expect(["0.0.0.0", "[::]", "128.0.0.1", "127.0.0.1.evil", "10.0.0.1"].map(beyond)).toEqual(Array(5).fill(true));
  expect(isBeyondHost({ kind: "unix", path: "/s" })).toBe(false);
});
