import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type CallContext, Metadata } from "nice-grpc-common";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type CallTime, timed } from "./call-times.ts";
import type { Perform } from "./role/perform.ts";

const context: CallContext = {
  metadata: Metadata(),
  peer: "test",
  header: Metadata(),
  trailer: Metadata(),
  sendHeader: () => undefined,
  signal: new AbortController().signal,
};

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-times-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const linesOf = async (file: string, count: number): Promise<readonly CallTime[]> => {
  for (;;) {
    const text = await readFile(file, "utf8").catch(() => "");
    const lines = text.split("\n").slice(0, -1);
    if (lines.length >= count) return lines.map((line) => JSON.parse(line) as CallTime);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};

test("each call is one line, also one that fails, and its answer goes through", async () => {
  const file = path.join(dir, "times");
  const refuse: Perform = async (method) => {
    if (method === "Probe") throw new Error("no");
    return {} as never;
  };
  const perform = timed(refuse, file);
  const before = process.hrtime.bigint();
  await expect(perform("Probe", {}, context)).rejects.toThrow("no");
  expect(await perform("NodeUnpublishVolume", { volumeId: "v1", targetPath: "/t" }, context)).toEqual({});
  const after = process.hrtime.bigint();

  const lines = await linesOf(file, 2);
  expect(lines.map(({ method, volume }) => [method, volume])).toEqual([
    ["Probe", ""],
    ["NodeUnpublishVolume", "v1"],
  ]);
  const moments = lines.flatMap(({ begin, end }) => [BigInt(begin), BigInt(end)]);
  expect([before, ...moments, after].every((at, i, all) => i === 0 || (all[i - 1] ?? 0n) <= at)).toBe(true);
});
