/** Which events of other controllers make this one read a record. */
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, it } from "vitest";
import type { PluginDrivers } from "../plugin/plugin-drivers.ts";
import { createReconciler, type ReconcilerDeps } from "./reconciler.ts";
import { createSnapshotReconciler, type SnapshotReconcilerDeps } from "./snapshot-reconciler.ts";

const build = () => {
  const read: string[] = [];
  const drivers: Pick<PluginDrivers, "drives"> = { drives: (plugin, key) => plugin === "p" && key.endsWith("/mine") };
  const shared = {
    drivers,
    lives: { issuer: "a/1", isFormerLife: () => false },
    plugins: {},
    gate: { state: () => ({ open: true, gen: 1, reason: "" }) },
    nodes: { onChange: () => () => undefined },
    guard: { onChange: () => () => undefined },
    clock: createManualClock(),
    ids: { uuid: () => "u", random: () => 0 },
    log: createMemoryLogger(),
    signal: new AbortController().signal,
  };
  const records = { recent: async ({ id }: { readonly id: string }) => void read.push(id) };
  const cuts = { get: async ({ id }: { readonly id: string }) => void read.push(id) };
  const reconciler = createReconciler({ ...shared, records } as unknown as ReconcilerDeps);
  const snapshots = createSnapshotReconciler({ ...shared, cuts } as unknown as SnapshotReconcilerDeps);
  return { reconciler, snapshots, read };
};

it.each([
  { key: "default/mine", plugin: "p", untaken: true, reads: ["mine"] },
  { key: "default/mine", plugin: "p", untaken: false, reads: [] },
  { key: "default/other", plugin: "p", untaken: true, reads: [] },
  { key: "default/mine", plugin: "q", untaken: true, reads: [] },
  { key: "default/mine", plugin: undefined, untaken: true, reads: [] },
])("of $key, plugin $plugin, untaken $untaken: it reads $reads", async ({ key, plugin, untaken, reads }) => {
  const { reconciler, snapshots, read } = build();
  reconciler.learned(key, { plugin, untaken, anyone: false });
  await reconciler.idle();
  expect(read).toEqual(reads);
  snapshots.learnOf(`snapshot:${key}`, { plugin, untaken });
  await snapshots.idle();
  expect(read).toEqual([...reads, ...reads]);
});

it("that ask any controller: it reads, whoever drives the plugin", async () => {
  const { reconciler, read } = build();
  reconciler.learned("default/other", { plugin: "q", untaken: false, anyone: true });
  await reconciler.idle();
  expect(read).toEqual(["other"]);
});
