/** One controller over a real store, a backend and hosts that outlive it, and a clock that the test moves. */

import { createMemoryLog } from "@holdfast/controller/api/memory-log";
import { createCommands } from "@holdfast/controller/commands/commands";
import type { CreateClaimsInput, CreateVolumeInput } from "@holdfast/controller/commands/model";
import { createNodeCommands } from "@holdfast/controller/commands/node/node-commands";
import { createRepairCommands } from "@holdfast/controller/commands/repair/repair-commands";
import { createSecretCommands } from "@holdfast/controller/commands/secret/secret-commands";
import {
  type ListExternalVolumes,
  listExternalVolumesQuery,
} from "@holdfast/controller/commands/volume/list-external-volumes";
import { createVolumeStats } from "@holdfast/controller/commands/volume/volume-stats";
import type { NodeRecord } from "@holdfast/controller/domain/node/node";
import type { IndexEntry } from "@holdfast/controller/domain/store-types";
import type { VolumeCapability, VolumeRecord } from "@holdfast/controller/domain/volume/volume";
import { createConditionMonitor } from "@holdfast/controller/figures/condition-monitor";
import { createNodeFigures } from "@holdfast/controller/figures/node-figures";
import { createPluginCatalogue } from "@holdfast/controller/nodes/plugin-catalogue";
import { wirePlacement } from "@holdfast/controller/placement-wiring";
import type { NodeDecisions, Nodes, NodeView, Store, StoreGate } from "@holdfast/controller/ports";
import { createReconciler } from "@holdfast/controller/reconcile/engine/reconciler";
import type { ReconcileFailpoint } from "@holdfast/controller/reconcile/failpoints";
import { createDrainKeeper } from "@holdfast/controller/reconcile/node/drain-keeper";
import { createPluginGovernor } from "@holdfast/controller/reconcile/plugin/plugin-governor";
import { createTwoWayPass } from "@holdfast/controller/reconcile/two-way/two-way-pass";
import { beingCut, snapshotOwner } from "@holdfast/controller/reconcile/two-way/two-way-snapshots";
import { createAttachLimits } from "@holdfast/controller/records/attachment/attach-limits";
import { createLearnedLimits } from "@holdfast/controller/records/attachment/learned-limits";
import { createAuditRecords } from "@holdfast/controller/records/audit-records";
import { createChanges } from "@holdfast/controller/records/changes";
import { createOrphanRecords } from "@holdfast/controller/records/orphan-records";
import { createPluginRecords } from "@holdfast/controller/records/plugin-records";
import { createCutRecords } from "@holdfast/controller/records/snapshot-records";
import { createVolumeRecords } from "@holdfast/controller/records/volume/volume-records";
import { createVolumeScan } from "@holdfast/controller/records/volume/volume-scan";
import { createSealer } from "@holdfast/controller/secrets/sealer";
import { createSecretRecords } from "@holdfast/controller/secrets/secret-records";
import { createSqliteStore } from "@holdfast/controller/store/sqlite/sqlite-store";
import type { AccessMode } from "@holdfast/model/access";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createFakeAgents } from "./fake-agents.ts";
import { createFakeBackend } from "./fake-backend.ts";
import { createFakeListings } from "./fake-listings.ts";

const secretKey = { id: "k1", key: Buffer.alloc(32, 7) };
export const secretKeys = { first: secretKey, byId: new Map([[secretKey.id, secretKey.key]]) };

export const plugin = "csi.example";
export const caller = { who: "test", why: "test" };

export const capability = (accessMode: AccessMode = "SINGLE_NODE_SINGLE_WRITER"): VolumeCapability => ({
  accessMode,
  attachmentMode: "FILE_SYSTEM",
  fsType: "ext4",
  mountFlags: [],
  volumeMountGroup: "",
});

export const volumeInput = (id: string, change: Partial<CreateVolumeInput> = {}): CreateVolumeInput => ({
  namespace: "default",
  id,
  plugin,
  capacity: { required: 1_000_000, limit: 0 },
  capabilities: [capability()],
  parameters: {},
  mutableParameters: {},
  topology: { required: [], preferred: [] },
  contentSource: { kind: "none" },
  secretRefs: {},
  labels: {},
  policy: { reclaim: "delete", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] },
  requestId: "",
  ...change,
});

export const claimsInput = (
  workload: string,
  node: string,
  volumes: readonly string[],
  change: Partial<CreateClaimsInput> = {},
): CreateClaimsInput => ({
  namespace: "default",
  workload,
  node,
  claims: volumes.map((volume) => ({ volume, alias: "", capability: undefined, readOnly: false })),
  requestId: "",
  queue: { enabled: false, deadlineMs: undefined },
  ...change,
});

const createFakeNodes = (names: readonly string[], count: Store["count"]) => {
  const listeners = new Set<(node: string) => void>();
  const record = (name: string): NodeRecord => ({
    name,
    machineId: `machine-${name}`,
    bootId: `boot-${name}-1`,
    journalUid: `journal-${name}-1`,
    instance: `instance-${name}-1`,
    nodeEpoch: 1,
    state: "READY",
    address: "",
    version: "0.1.0",
    verificationScope: "host",
    plugins: [
      {
        name: plugin,
        version: "1.0.0",
        instance: `${plugin}-${name}`,
        role: "NODE",
        health: "HEALTHY",
        healthMessage: "",
        nodeId: name,
        maxVolumes: 0,
        topology: {},
        capabilities: {},
      },
    ],
    registeredAt: 0,
    updatedAt: 0,
  });
  const views = new Map<string, NodeView>(names.map((name) => [name, { record: record(name), live: "alive" }]));
  const nodes: Nodes &
    NodeDecisions & {
      set(name: string, change: Partial<NodeRecord>, live?: NodeView["live"]): void;
      remove(name: string): void;
    } = {
    get: (name) => views.get(name),
    list: () => [...views.values()],
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    set(name, change, live) {
      const view = views.get(name) ?? { record: record(name), live: "alive" as const };
      views.set(name, { record: { ...view.record, ...change }, live: live ?? view.live });
      for (const listener of listeners) listener(name);
    },
    remove(name) {
      views.delete(name);
    },
    async change(name, decide) {
      const view = views.get(name);
      if (view === undefined) return undefined;
      const next = decide(view.record);
      views.set(name, { ...view, record: next });
      if (next !== view.record) for (const listener of listeners) listener(name);
      return views.get(name);
    },
    async forget(name, decide, { index, value }) {
      const view = views.get(name);
      if (view === undefined) return "unknown";
      decide(view.record);
      const [carriers = 0] = await count([{ index, value }]);
      if (carriers > 0) return "in use";
      views.delete(name);
      for (const listener of listeners) listener(name);
      return "forgotten";
    },
  };
  return nodes;
};

const createFakeGate = () => {
  const listeners = new Set<() => void>();
  let open = true;
  let gen = 1;
  const gate: StoreGate & { set(open: boolean, gen?: number): void } = {
    state: () => ({ open, gen, reason: open ? "" : "node n1 has not answered yet" }),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    set(next, nextGen) {
      open = next;
      gen = nextGen ?? gen;
      for (const listener of listeners) listener();
    },
  };
  return gate;
};

/** Passes everything on, counts commits, and loses answers as told. */
const createWatchedStore = (inner: Store) => {
  const lose: ("before" | "after")[] = [];
  let unvetted = false;
  let failing = { count: 0, skip: 0 };
  let commits = 0;
  let reads = 0;
  let counts = 0;
  let failingLists = 0;
  return {
    ...inner,
    list: async (page: Parameters<Store["list"]>[0]) => {
      if (failingLists-- > 0)
        throw new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "the store is away" });
      return await inner.list(page);
    },
    get: (ref: Parameters<Store["get"]>[0]) => {
      reads += 1;
      return inner.get(ref);
    },
    getMany: (refs: Parameters<Store["getMany"]>[0]) => {
      reads += 1;
      return inner.getMany(refs);
    },
    count: (entries: Parameters<Store["count"]>[0]) => {
      counts += 1;
      return inner.count(entries);
    },
    commit: async (commit: Parameters<Store["commit"]>[0]) => {
      commits += 1;
      if (failing.count > 0 && failing.skip-- <= 0) {
        failing.count -= 1;
        throw new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "the store is away" });
      }
      if (unvetted && commit.requiresVetted)
        throw new HoldfastError({ kind: "unavailable", reason: "STORE_UNVETTED", message: "another process answers" });
      const how = lose.shift();
      if (how !== "before") {
        const result = await inner.commit(commit);
        if (how === undefined) return result;
      }
      throw new HoldfastError({ kind: "unavailable", reason: "STORE_OUTCOME_UNKNOWN", message: "the answer was lost" });
    },
    loseCommits: (...how: readonly ("before" | "after")[]) => void lose.push(...how),
    /** After `skip` more commits the next `count` find no store. */
    failCommits: (count: number, skip: number) => {
      failing = { count, skip };
    },
    /** The next lists find no store. */
    failLists: (count: number) => {
      failingLists = count;
    },
    /** Another process answers than the one that was vetted, and the controller has not noticed yet. */
    refuseGrants: (refuse: boolean) => {
      unvetted = refuse;
    },
    commits: () => commits,
    reads: () => reads,
    counts: () => counts,
  };
};

export type World = Awaited<ReturnType<typeof createWorld>>;

export const createWorld = async (
  options: {
    readonly nodes?: readonly string[];
    readonly store?: Store;
    readonly random?: () => number;
    /** What the store has and the hosts have mounted, before the first controller starts. */
    readonly mounted?: Iterable<VolumeRecord>;
  } = {},
) => {
  const names = options.nodes ?? ["n1", "n2", "n3"];
  const clock = createManualClock();
  let uuids = 0;
  const ids = {
    uuid: () => {
      uuids += 1;
      return `00000000-0000-4000-8000-${uuids.toString(16).padStart(12, "0")}`;
    },
    random: options.random ?? (() => 0.5),
  };
  const inner: Store = options.store ?? createSqliteStore({ file: ":memory:", now: clock.now, uuid: ids.uuid });
  const identity = await inner.identity();
  await inner.markVetted(identity.runId, 1);
  const store = createWatchedStore(inner);
  const nodes = createFakeNodes(names, inner.count);
  const gate = createFakeGate();
  const backend = createFakeBackend({ plugin, mounted: (external, node) => agents.mounted(external, node) });
  const agents = createFakeAgents({
    attached: (external, node) => backend.attachments().includes(`${external}@${node}`),
    attaches: () => backend.facts(plugin).attaches === "yes",
  });
  for (const volume of options.mounted ?? []) agents.hold(volume);
  const listings = createFakeListings({ plugin, volumes: backend.volumes, attachments: backend.attachments });
  const log = createMemoryLogger();
  const learned = createLearnedLimits({ store, clock, ids, signal: new AbortController().signal });
  const attachLimit = createAttachLimits({
    nodes,
    profileOf: () => ({ maxVolumesPerNode: 0 }),
    learned: learned.of,
  });
  /** Lives of other controllers that have said nothing for a while. */
  const away = new Set<string>();
  let lives = 0;
  let killAt: { name: ReconcileFailpoint; skip: number } | undefined;

  const start = async () => {
    lives += 1;
    const life = new AbortController();
    const { signal } = life;
    const issuer = `c1/${lives}`;
    const changes = createChanges();
    const records = createVolumeRecords({
      store,
      clock,
      ids,
      issuer,
      changes,
      attachLimit,
      route: backend.instance,
      log,
      signal,
    });
    const pluginRecords = createPluginRecords({ store, clock, ids, signal });
    await pluginRecords.load();
    const secrets = createSecretCommands({
      granted: () => true,
      records: createSecretRecords({ store, clock, ids, signal }),
      sealer: createSealer({ keyFile: { keys: async () => secretKeys }, clusterUid: async () => "world" }),
      clock,
      changed: () => undefined,
    });
    const cuts = createCutRecords({ store, clock, ids, issuer, changes, route: backend.instance, signal });
    const commandDeps = { records, cuts, nodes, plugins: backend, gate, secrets, feed: store, clock, ids };
    const commands = createCommands(commandDeps);
    const audit = createAuditRecords({ store, ids });
    const orphans = createOrphanRecords({ store, clock, ids, signal });
    const scan = createVolumeScan(store);
    const snapshotFacts = {
      owner: (name: string, externalId: string) => snapshotOwner({ cuts }, name, externalId),
      beingCut: (name: string) => beingCut({ cuts }, name),
    };
    const twoWay = createTwoWayPass({ cuts, records, scan, orphans, listings, nodes, gate, clock, log, signal });
    const repair = createRepairCommands({
      ...commandDeps,
      agents,
      audit,
      orphans,
      scan,
      listings,
      pass: twoWay,
      snapshotFacts,
      signal,
    });
    const failpoint = (name: ReconcileFailpoint): void => {
      if (killAt?.name !== name) return;
      killAt.skip -= 1;
      if (killAt.skip >= 0) return;
      killAt = undefined;
      life.abort(new DOMException("killed", "AbortError"));
      signal.throwIfAborted();
    };
    const reconciler = createReconciler({
      records,
      lives: {
        issuer,
        isFormerLife: (other) => other.startsWith("c1/") && other !== issuer,
        isAway: (other) => away.has(other),
      },
      learned,
      plugins: backend,
      agents,
      nodes,
      gate,
      guard: createPluginGovernor({
        allowed: pluginRecords.of,
        current: () => undefined,
        clock,
        random: ids.random,
        log,
        signal,
      }),
      clock,
      ids,
      log,
      signal,
      failpoint,
    });
    await reconciler.start();
    const figures = createNodeFigures({ agents, nodes, clock, signal });
    const stats = createVolumeStats({ records, nodes, clock, figures });
    const conditions = createConditionMonitor({
      records,
      nodes,
      agents,
      plugins: backend,
      clock,
      random: ids.random,
      log,
      signal,
    });
    const nodeCommands = createNodeCommands({ ...commandDeps, nodes });
    const catalogue = createPluginCatalogue({
      nodes,
      controllerId: "c1",
      beside: () => [],
      onChangeBeside: () => undefined,
    });
    const [nodeLog, pluginLog] = [createMemoryLog(`c1/${lives}`), createMemoryLog(`c1/${lives}`)];
    nodes.onChange(nodeLog.note);
    catalogue.onChange(pluginLog.note);
    pluginRecords.onChange(pluginLog.note);
    const logs = { nodeLog, pluginLog };
    const drains = createDrainKeeper({ nodes, records, clock, log, signal, changed: nodeLog.note });
    return {
      life,
      changes,
      stats,
      conditions,
      records,
      pluginRecords,
      secrets,
      commands,
      orphans,
      twoWay,
      repair,
      audit,
      nodeCommands,
      drains,
      catalogue,
      logs,
      reconciler,
    };
  };

  let controller = await start();

  /** Work settles; the short pauses between conflicting commits are given the little time that they ask for. */
  const idle = async (): Promise<void> => {
    for (let n = 0; n < 3; n += 1) {
      let done = false;
      const settled = controller.reconciler.idle().then(() => {
        done = true;
      });
      for (let turn = 0; turn < 200 && !done; turn += 1) await clock.advance(turn < 5 ? 0 : 5);
      if (!done) throw new Error("the reconciler never comes to rest");
      await settled;
    }
  };

  return {
    clock,
    store,
    nodes,
    gate,
    backend,
    listings,
    agents,
    log,
    learned,
    attachLimit,
    away,
    /** Of the controller that runs now. */
    placement: () =>
      wirePlacement({ nodes, records: controller.records, plugins: backend, gate, clock }, controller.life.signal),
    get commands() {
      return controller.commands;
    },
    get stats() {
      return controller.stats;
    },
    get conditions() {
      return controller.conditions;
    },
    get repair() {
      return controller.repair;
    },
    get orphans() {
      return controller.orphans;
    },
    /** One comparison of the backend with the records. */
    compare: () => controller.twoWay.run(plugin),
    get audit() {
      return controller.audit;
    },
    listExternalVolumes: ((plugin, page, signal) =>
      listExternalVolumesQuery({ records: controller.records, plugins: backend, listings })(
        plugin,
        page,
        signal,
      )) satisfies ListExternalVolumes,
    get records() {
      return controller.records;
    },
    get secrets() {
      return controller.secrets;
    },
    get nodeCommands() {
      return controller.nodeCommands;
    },
    countOf: async (entry: IndexEntry): Promise<number> => (await store.count([entry]))[0] ?? 0,
    get catalogue() {
      return controller.catalogue;
    },
    get nodeLog() {
      return controller.logs.nodeLog;
    },
    get pluginLog() {
      return controller.logs.pluginLog;
    },
    get drains() {
      return controller.drains;
    },
    get pluginRecords() {
      return controller.pluginRecords;
    },
    get changes() {
      return controller.changes;
    },
    get reconciler() {
      return controller.reconciler;
    },
    get alive() {
      return !controller.life.signal.aborted;
    },
    /** The next time this point is passed (after `skip` times) the controller is dead. */
    killAt(name: ReconcileFailpoint, skip = 0) {
      killAt = { name, skip };
    },
    spare() {
      killAt = undefined;
    },
    kill() {
      controller.life.abort(new DOMException("killed", "AbortError"));
    },
    async restart() {
      controller.life.abort(new DOMException("killed", "AbortError"));
      controller = await start();
      await idle();
    },
    idle,
    /** Lets time pass in small steps, so that retries and deadlines happen. */
    async pass(ms: number, step = 1_000) {
      for (let left = ms; left > 0; left -= step) {
        await clock.advance(Math.min(step, left));
        await idle();
      }
    },
    async volume(id: string): Promise<VolumeRecord> {
      return (await controller.commands.getVolume({ namespace: "default", id })).volume;
    },
    async makeVolume(id: string, change: Partial<CreateVolumeInput> = {}): Promise<VolumeRecord> {
      await controller.commands.createVolume(volumeInput(id, change), caller);
      await idle();
      return (await controller.commands.getVolume({ namespace: "default", id })).volume;
    },
    async claim(workload: string, node: string, volumes: readonly string[], change: Partial<CreateClaimsInput> = {}) {
      return await controller.commands.createClaims(claimsInput(workload, node, volumes, change), caller);
    },
    async release(workload: string, claimUids: readonly string[] = []) {
      return await controller.commands.releaseClaims(
        { namespace: "default", workload, aliases: [], claimUids },
        caller,
      );
    },
    /** State of each claim of a workload, living or over. */
    async states(workload: string): Promise<readonly string[]> {
      const views = await controller.commands.selectClaims({
        namespace: "default",
        workload,
        aliases: [],
        claimUids: [],
      });
      return views.map((v) => v.claim.state);
    },
    violations: () => [...backend.violations, ...agents.violations],
    async close() {
      controller.life.abort(new DOMException("over", "AbortError"));
      await inner.close();
    },
  };
};
