import { expect, test } from "vitest";
import { nearNames } from "./near-names.ts";

test.each([
  ["wbe-1", ["web-1", "web-2", "db-1"], ["web-1"]],
  ["lst", ["list", "label", "stats"], ["list"]],
  ["volumes", ["volume", "node"], ["volume"]],
  ["web", ["web-1", "web-1", "web-2", "web-3", "web-4"], ["web-1", "web-2", "web-3"]],
  ["x", ["web-1", "other"], []],
  ["staus", ["stats", "status"], ["stats", "status"]],
])("%s", (word, names, near) => {
  expect(nearNames(word, names)).toEqual(near);
});

test("words that are far too long are not compared", () => {
  expect(nearNames("a".repeat(100_000), ["a".repeat(100_001)])).toEqual([]);
});
