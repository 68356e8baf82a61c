/** Which events of other controllers make this one read a record. */
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, it } from "vitest";
import type { CutRecord } from "../../domain/snapshot/snapshot.ts";
import type { PluginDrivers } from "../plugin/plugin-drivers.ts";
import { createReconciler, type ReconcilerDeps } from "./reconciler.ts";
import { createSnapshotReconciler, type SnapshotReconcilerDeps } from "./snapshot-reconciler.ts";

/** `cut`: the record of each snapshot. `listed`: what is not settled. */
const build = (cut?: Partial<CutRecord>, listed: readonly string[] = []) => {
  const read: string[] = [];
  const clock = createManualClock();
  const drivers: Pick<PluginDrivers, "drives"> = { drives: (plugin, key) => plugin === "p" && key.endsWith("/mine") };
  const shared = {
    drivers,
    lives: { issuer: "a/1", isFormerLife: () => false },
    plugins: {},
    gate: { state: () => ({ open: true, vetting: { gen: 1, uid: "vetting-1" }, reason: "" }) },
    nodes: { onChange: () => () => undefined },
    guard: { onChange: () => () => undefined },
    clock,
    ids: { uuid: () => "u", random: () => 0 },
    log: createMemoryLogger(),
    signal: new AbortController().signal,
  };
  const records = {
    recent: async ({ id }: { readonly id: string }) => void read.push(id),
    list: async () => ({ volumes: listed.map((id) => ({ volume: { namespace: "default", id } })), next: undefined }),
  };
  const cuts = {
    list: async (index: string) => ({
      cuts: listed.map((id) => ({ record: { kind: index.slice(0, index.indexOf("-")), namespace: "default", id } })),
      next: undefined,
    }),
    async get({ id }: { readonly id: string }) {
      read.push(id);
      return cut && { record: { kind: "snapshot", namespace: "default", id, group: "", bars: [], ...cut } };
    },
  };
  const reconciler = createReconciler({ ...shared, records } as unknown as ReconcilerDeps);
  const snapshots = createSnapshotReconciler({ ...shared, cuts } as unknown as SnapshotReconcilerDeps);
  return { reconciler, snapshots, read, clock };
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
  snapshots.learnOf(`snapshot:${key}`, { plugin, untaken, anyone: false });
  await snapshots.idle();
  expect(read).toEqual([...reads, ...reads]);
});

it("that ask any controller: it reads, whoever drives the plugin", async () => {
  const { reconciler, snapshots, read } = build();
  const told = { plugin: "q", untaken: false, anyone: true };
  reconciler.learned("default/other", told);
  await reconciler.idle();
  expect(read).toEqual(["other"]);
  snapshots.learnOf("group:default/other", told);
  await snapshots.idle();
  expect(read).toEqual(["other", "other"]);
});

it("that were missed: it reads whatever is not settled", async () => {
  const { reconciler, snapshots, read } = build(undefined, ["left", "mine"]);
  await reconciler.missed();
  await reconciler.idle();
  expect(read).toEqual(["left", "mine"]);
  await snapshots.missed();
  await snapshots.idle();
  // Snapshots, and groups of them.
  expect(read.slice(2)).toEqual(["left", "mine", "left", "mine"]);
});

it("of a record whose call is paused: it reads it again at its time, whoever moves it on in the due queue", async () => {
  const clockNow = createManualClock().now();
  const { snapshots, read, clock } = build({
    state: "DELETING",
    attempts: { count: 1, nextTry: clockNow + 45_000, lastError: { reason: "x", message: "x", at: clockNow } },
  });
  snapshots.learnOf("snapshot:default/mine", { plugin: "p", untaken: true, anyone: false });
  await clock.advance(44_999);
  expect(read).toEqual(["mine"]);
  await clock.advance(1);
  expect(read.length).toBeGreaterThan(1);
});
