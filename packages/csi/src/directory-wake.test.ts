import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { watchDirectory } from "./directory-wake.ts";
import { makeSocketDirectory, type SocketDirectory } from "./testing/tiny-plugin.ts";

let home: SocketDirectory;
let dir: string;
let clock: ManualClock;
let stop: AbortController;
let wakes: number;

beforeEach(async () => {
  home = await makeSocketDirectory();
  dir = path.join(home.dir, "watched");
  clock = createManualClock();
  stop = new AbortController();
  wakes = 0;
});
afterEach(async () => {
  stop.abort(new Error("the test is over"));
  await home[Symbol.asyncDispose]();
});

const wake = (): void => {
  wakes += 1;
};

const watch = (): void => {
  watchDirectory({ dir, clock, signal: stop.signal, pollMs: 500, wake });
};

/** One poll has run to its end: it has woken, and sleeps until the next. */
const poll = async (ms = 0): Promise<void> => {
  const before = wakes;
  await clock.advance(ms);
  await expect.poll(() => clock.pending()).toBe(1);
  expect(wakes).toBeGreaterThan(before);
};

/** The clock stands still here: only an event of the kernel can wake. */
const touched = async (file: string): Promise<void> => {
  const before = wakes;
  await writeFile(path.join(dir, file), "");
  await expect.poll(() => wakes).toBeGreaterThan(before);
};

describe("a watched directory", () => {
  it("wakes at once, by events, and by the poll", async () => {
    await mkdir(dir);
    watch();
    await poll();
    await touched("a");
    await poll(500);
  });

  it("is watched as soon as the poll finds that it exists", async () => {
    watch();
    await poll();
    await mkdir(dir);
    await poll(500);
    await touched("a");
  });

  it("is watched again after it was replaced", async () => {
    await mkdir(dir);
    watch();
    await poll();
    await rm(dir, { recursive: true });
    await mkdir(dir);
    await poll(500);
    await touched("a");
  });

  it("is left alone once the signal is aborted", async () => {
    await mkdir(dir);
    watch();
    await poll();
    stop.abort(new Error("enough"));
    await clock.advance(5_000);
    const before = wakes;
    await writeFile(path.join(dir, "late"), "");
    await clock.advance(5_000);
    expect(wakes).toBe(before);
    expect(clock.pending()).toBe(0);
  });
});
