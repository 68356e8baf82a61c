import { describe, expect, test } from "vitest";
import { readSpecDocument } from "../spec/spec-document.ts";
import { boundedYaml, readUpTo } from "./bounded-text.ts";

const labels = (count: number): string =>
  `labels:\n${Array.from({ length: count }, (_, i) => `  k${i}: v\n`).join("")}`;

describe("a file", () => {
  test("of any request is taken, and soon parsed", () => {
    const text = labels(5_000);
    expect(boundedYaml(text, "a.yaml")).toBe(text);
    expect(readSpecDocument(text).mistakes).toEqual([]);
  });

  test.each([
    ["a hundred thousand labels", labels(100_000).slice(0, 1024 * 1024), /more than 10000 keys/],
    ["as many in one line", `{${"a: 1, ".repeat(20_000)}}`, /more than 10000 keys/],
    ["as many without a colon", "? a\n".repeat(20_000), /more than 10000 keys/],
    ["more than 1 MiB", "x".repeat(1024 * 1024 + 1), /larger than 1048576 bytes/],
  ])("of %s is refused before it is parsed", (_what, text, says) => {
    expect(() => boundedYaml(text, "a.yaml")).toThrow(says);
  });

  test("without an end is given up", async () => {
    const endless = async function* () {
      for (;;) yield new Uint8Array(1_000);
    };
    await expect(readUpTo(endless(), 10_000)).rejects.toThrow(/larger than 10000 bytes/);
    const short = async function* () {
      yield Buffer.from("ab");
      yield Buffer.from("c");
    };
    expect(Buffer.from(await readUpTo(short())).toString()).toBe("abc");
  });
});
