/**
 * Somebody swaps a directory on the way for a link while the agent makes and removes what it needs below it. The link's
 * place has what every operation would love to find: empty directories and empty files of the right names. Nothing is ever
 * made there and nothing of it goes.
 */
import { lstatSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Worker } from "node:worker_threads";
import { openHostDirs } from "@holdfast/node-agent/volumes/host-dirs";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, onTestFinished, test } from "vitest";
import { sample } from "../support/full.ts";
import type { SwapOrders } from "./support/swap-worker.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: the agent's directories need root");

/** What is swapped, and where below the link the same names would be. */
const victims = [
  { victim: "publish/abc", bait: "" },
  { victim: "publish", bait: "abc" },
  { victim: "staging", bait: "" },
  { victim: ".", bait: "publish/abc" },
] as const;
const races = sample(500, 25);

/** Every name below a directory, with what it is. */
const picture = (at: string): readonly string[] =>
  readdirSync(at, { recursive: true, encoding: "utf8" })
    .map((name) => `${name} ${lstatSync(path.join(at, name)).mode.toString(8)}`)
    .sort();

describe.skipIf(!root)("a directory swapped for a link during each operation", () => {
  test.each(victims)(`$victim, ${races} races: no escape`, { timeout: 120_000 }, async ({ victim, bait }) => {
    const dir = await mkdtemp(path.join(tmpdir(), "hf-swap-"));
    onTestFinished(() => rm(dir, { recursive: true, force: true }));
    const at = path.join(dir, "m");
    const outside = path.join(dir, "outside");
    for (const below of ["publish", "staging"]) await mkdir(path.join(outside, below), { recursive: true });
    const trap = path.join(outside, bait);
    await mkdir(trap, { recursive: true });
    for (const name of ["gone-dir", "abc", "stage"]) await mkdir(path.join(trap, name), { recursive: true });
    await writeFile(path.join(trap, "gone-file"), "");
    const before = picture(outside);

    const dirs = await openHostDirs({ root: at, log: createMemoryLogger(), alsoTrusted: [], clock: systemClock });
    await mkdir(path.join(at, "publish/abc"), { recursive: true, mode: 0o711 });
    const shared = new SharedArrayBuffer(8);
    const state = new Int32Array(shared);
    const orders: SwapOrders = { victim: path.resolve(at, victim), outside, shared };
    const attacker = new Worker(new URL("./support/swap-worker.ts", import.meta.url), { workerData: orders });
    const ended = new Promise((resolve) => attacker.once("exit", resolve));
    onTestFinished(async () => {
      Atomics.store(state, 0, 1);
      await ended;
    });
    while (Atomics.load(state, 1) === 0) await new Promise((resolve) => setTimeout(resolve, 1));

    const operations = [
      () => dirs.makeStaging(`${at}/staging/stage`),
      () => dirs.makeStaging(`${at}/staging/new`),
      () => dirs.removeDirectory(`${at}/staging/new`),
      () => dirs.makeParent(`${at}/publish/abc/def`),
      () => dirs.removeTarget(`${at}/publish/abc/gone-dir`),
      () => dirs.removeTarget(`${at}/publish/abc/gone-file`),
      () => dirs.removeDirectory(`${at}/publish/abc`),
    ];
    const outcomes = new Map<string, number>();
    const seen = Atomics.load(state, 1);
    // How soon both are met depends on the machine: it goes on until they were, and far beyond what any has needed.
    const met = (): boolean => ["HOST_PATH_UNSAFE", "done"].every((outcome) => outcomes.has(outcome));
    for (let race = 0; race < races || (!met() && race < races * 400); race += 1)
      for (const operate of operations) {
        const outcome = await operate().then(
          () => "done",
          (error: { code?: string; reason?: string }) => error.reason ?? error.code ?? String(error),
        );
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        expect(picture(outside), `${victim}, race ${race}`).toEqual(before);
      }
    // It was a race: the attacker was at work all the time, and the operations met the link as well as the directory.
    expect(Atomics.load(state, 1) - seen).toBeGreaterThan(races);
    expect([...outcomes.keys()].filter((it) => !["done", "HOST_PATH_UNSAFE", "ENOENT"].includes(it))).toEqual([]);
    expect(outcomes.get("HOST_PATH_UNSAFE") ?? 0).toBeGreaterThan(0);
    expect(outcomes.get("done") ?? 0).toBeGreaterThan(0);
  });
});
