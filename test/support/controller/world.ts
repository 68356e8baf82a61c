/** One controller over a real store, a backend and hosts that outlive it, and a clock that the test moves. */

import { createMemoryLog } from "@holdfast/controller/api/memory-log";
import { createCommands } from "@holdfast/controller/commands/commands";
import type { CreateClaimsInput, CreateVolumeInput } from "@holdfast/controller/commands/model";
import { createNodeCommands } from "@holdfast/controller/commands/node/node-commands";
import { createRepairCommands } from "@holdfast/controller/commands/repair/repair-commands";
import { createSecretCommands } from "@holdfast/controller/commands/secret/secret-commands";
import { createSnapshotCommands } from "@holdfast/controller/commands/snapshot/snapshot-commands";
import {
  type ListExternalVolumes,
  listExternalVolumesQuery,
} from "@holdfast/controller/commands/volume/list-external-volumes";
import { createVolumeStats } from "@holdfast/controller/commands/volume/volume-stats";
import type { RouteOf } from "@holdfast/controller/domain/plugin/instance-reach";
import { defaultProfile } from "@holdfast/controller/domain/plugin/plugin-profile";
import type { IndexEntry } from "@holdfast/controller/domain/store-types";
import type { VolumeCapability, VolumeRecord } from "@holdfast/controller/domain/volume/volume";
import { createConditionMonitor } from "@holdfast/controller/figures/condition-monitor";
import { createNodeFigures } from "@holdfast/controller/figures/node-figures";
import { createPluginCatalogue } from "@holdfast/controller/nodes/plugin-catalogue";
import { wirePlacement } from "@holdfast/controller/placement-wiring";
import type { Ids, NodeDecisions, Nodes, Store, StoreGate } from "@holdfast/controller/ports";
import { createReconciler } from "@holdfast/controller/reconcile/engine/reconciler";
import type { ReconcileFailpoint } from "@holdfast/controller/reconcile/failpoints";
import { createDrainKeeper } from "@holdfast/controller/reconcile/node/drain-keeper";
import { createFenceKeeper } from "@holdfast/controller/reconcile/node/fence-keeper";
import type { PluginDrivers } from "@holdfast/controller/reconcile/plugin/plugin-drivers";
import { createPluginGovernor } from "@holdfast/controller/reconcile/plugin/plugin-governor";
import { createTwoWayPass } from "@holdfast/controller/reconcile/two-way/two-way-pass";
import { beingCut, snapshotOwner } from "@holdfast/controller/reconcile/two-way/two-way-snapshots";
import { createAttachLimits } from "@holdfast/controller/records/attachment/attach-limits";
import { createLearnedLimits } from "@holdfast/controller/records/attachment/learned-limits";
import { createAuditRecords } from "@holdfast/controller/records/audit-records";
import { runChangeFeed } from "@holdfast/controller/records/change-feed";
import { createChanges } from "@holdfast/controller/records/changes";
import { createDamagedRecords } from "@holdfast/controller/records/damaged-records";
import { createOrphanRecords } from "@holdfast/controller/records/orphan-records";
import { createPluginRecords, type PluginRecords } from "@holdfast/controller/records/plugin-records";
import { createQuotaRecords } from "@holdfast/controller/records/quota/quota-records";
import { createCutRecords } from "@holdfast/controller/records/snapshot-records";
import { createVolumeRecords } from "@holdfast/controller/records/volume/volume-records";
import { createVolumeScan } from "@holdfast/controller/records/volume/volume-scan";
import { createSealer } from "@holdfast/controller/secrets/sealer";
import { createSecretRecords } from "@holdfast/controller/secrets/secret-records";
import { createSqliteStore } from "@holdfast/controller/store/sqlite/sqlite-store";
import type { AccessMode } from "@holdfast/model/access";
import type { Clock } from "@holdfast/shared/async/clock";
import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { vetAnew } from "../../../services/controller/src/store/vet-anew.ts";
import { createFakeAgents, type FakeAgents } from "./fake-agents.ts";
import { createFakeBackend, type FakeBackend } from "./fake-backend.ts";
import { createFakeListings } from "./fake-listings.ts";
import { createFakeNodes } from "./fake-nodes.ts";
import { createWatchedStore } from "./watched-store.ts";

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

const createFakeGate = () => {
  const listeners = new Set<() => void>();
  let open = true;
  let vetting = { gen: 1, uid: "vetting-1" };
  const gate: StoreGate & { set(open: boolean, gen?: number): void } = {
    state: () => ({ open, vetting, reason: open ? "" : "node n1 has not answered yet" }),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    set(next, nextGen) {
      open = next;
      if (nextGen !== undefined) vetting = { gen: nextGen, uid: `vetting-${nextGen}` };
      for (const listener of listeners) listener();
    },
  };
  return gate;
};

/** What several controllers share, as one of them sees it. */
interface Beside {
  readonly manual: ManualClock;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly nodes: ReturnType<typeof createFakeNodes>;
  readonly gate: ReturnType<typeof createFakeGate>;
  readonly backend: FakeBackend;
  readonly agents: FakeAgents;
  readonly rests: (() => Promise<void>)[];
  readonly stopped: () => boolean;
}

export type World = Awaited<ReturnType<typeof createWorld>>;

export const createWorld = async (
  options: {
    readonly nodes?: readonly string[];
    /** Plugins beside `plugin`, on every node. */
    readonly others?: readonly string[];
    readonly store?: Store;
    readonly random?: () => number;
    /** What the store has and the hosts have mounted, before the first controller starts. */
    readonly mounted?: Iterable<VolumeRecord>;
    readonly id?: string;
    /** Aborted: the controller takes up nothing any more. */
    readonly taking?: AbortSignal;
    /** Who of several controllers makes which calls; this one then follows what the others write. */
    readonly drivers?: PluginDrivers;
    /** Of nodes that register, in place of those that a test sets. */
    readonly registry?: (store: Store, clock: Clock) => Nodes & NodeDecisions;
    /** Another controller of the same world, and what this one sees of it. */
    readonly beside?: Partial<Beside>;
  } = {},
) => {
  const { beside, drivers, id = "c1" } = options;
  const names = options.nodes ?? ["n1", "n2", "n3"];
  const manual = beside?.manual ?? createManualClock();
  const clock: Clock = beside?.clock ?? manual;
  let uuids = 0;
  const ids = beside?.ids ?? {
    uuid: () => {
      uuids += 1;
      return `00000000-0000-4000-8000-${uuids.toString(16).padStart(12, "0")}`;
    },
    random: options.random ?? (() => 0.5),
  };
  const inner: Store = options.store ?? createSqliteStore({ file: ":memory:", now: clock.now, uuid: ids.uuid });
  await vetAnew(inner);
  const store = createWatchedStore(inner);
  const fakeNodes = beside?.nodes ?? createFakeNodes(names, [plugin, ...(options.others ?? [])], inner.count);
  const nodes: Nodes & NodeDecisions = options.registry?.(store, clock) ?? fakeNodes;
  const gate = beside?.gate ?? createFakeGate();
  const backend: FakeBackend =
    beside?.backend ??
    createFakeBackend({ plugin, others: options.others, mounted: (external, node) => agents.mounted(external, node) });
  const agents: FakeAgents =
    beside?.agents ??
    createFakeAgents({
      attached: (external, node) => backend.attachments().includes(`${external}@${node}`),
      attaches: () => backend.facts(plugin).attaches === "yes",
    });
  for (const volume of options.mounted ?? []) agents.hold(volume);
  const listings = createFakeListings({ plugin, volumes: backend.volumes, attachments: backend.attachments });
  const log = createMemoryLogger();
  const learned = createLearnedLimits({ store, clock, ids, signal: new AbortController().signal });
  let profiles: PluginRecords | undefined;
  const attachLimit = createAttachLimits({
    nodes,
    profileOf: (name) => profiles?.of(name) ?? defaultProfile,
    pluginsOf: (pool) => profiles?.inPool(pool) ?? [],
    learned: learned.of,
  });
  /** Lives of other controllers that have said nothing for a while. */
  const away = new Set<string>();
  let lives = 0;
  let killAt: { name: ReconcileFailpoint; skip: number } | undefined;

  const route: RouteOf = (target, key) =>
    drivers?.keeps(target.plugin, key) === false ? undefined : backend.instance(target);

  const start = async () => {
    lives += 1;
    const life = new AbortController();
    const { signal } = life;
    const issuer = `${id}/${lives}`;
    const changes = createChanges();
    const damages = createDamagedRecords({ log, now: clock.now });
    const records = createVolumeRecords({
      damages,
      store,
      clock,
      ids,
      issuer,
      changes,
      attachLimit,
      route,
      log,
      signal,
    });
    const pluginRecords = createPluginRecords({ store, clock, ids, signal });
    await pluginRecords.load();
    profiles = pluginRecords;
    pluginRecords.onChange(records.slots.limitsChanged);
    const secrets = createSecretCommands({
      granted: () => true,
      records: createSecretRecords({ store, clock, ids, signal }),
      sealer: createSealer({ keyFile: { keys: async () => secretKeys }, clusterUid: async () => "world" }),
      clock,
      changed: () => undefined,
    });
    const cuts = createCutRecords({ store, clock, ids, issuer, changes, route, signal });
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
      words: undefined,
      damages,
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
        isFormerLife: (other) => other.startsWith(`${id}/`) && other !== issuer,
        isAway: (other) => away.has(other),
      },
      drivers,
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
      sent: async () => undefined,
      ...(options.taking === undefined ? {} : { taking: options.taking }),
    });
    if (drivers !== undefined)
      runChangeFeed({
        store,
        records: {
          async learnOf(key, told) {
            await records.learnOf(key, told.rev, told.node);
            reconciler.learned(key, told);
          },
        },
        lookAgain: async () => records.forgetAll(),
        missed: reconciler.missed,
        learnOfNode: async () => undefined,
        learnOfPlugin: pluginRecords.learnOf,
        learnOfLimit: learned.learnOf,
        learnOfGrant: async () => undefined,
        learnOfDenial: async () => undefined,
        learnOfCut: () => undefined,
        secretChanged: () => undefined,
        changes,
        clock,
        log,
        signal,
      }).catch((error: unknown) => {
        if (!signal.aborted) log.error("following the store ended", { error });
      });
    await reconciler.start();
    const figures = createNodeFigures({ agents, nodes, clock, signal });
    const stats = createVolumeStats({ records, nodes, clock, figures });
    const conditions = createConditionMonitor({
      records,
      nodes,
      agents,
      plugins: backend,
      profiles: pluginRecords,
      clock,
      random: ids.random,
      log,
      signal,
    });
    const nodeCommands = createNodeCommands({ ...commandDeps, nodes, audit, profiles: pluginRecords });
    const catalogue = createPluginCatalogue({
      nodes,
      controllerId: id,
      beside: () => [],
      onChangeBeside: () => undefined,
    });
    const [nodeLog, pluginLog] = [createMemoryLog(issuer), createMemoryLog(issuer)];
    nodes.onChange(nodeLog.note);
    catalogue.onChange(pluginLog.note);
    pluginRecords.onChange(pluginLog.note);
    const logs = { nodeLog, pluginLog };
    const drains = createDrainKeeper({ nodes, records, clock, log, signal, changed: nodeLog.note });
    const fences = createFenceKeeper({
      ...{ nodes, records, agents, gate, clock, log, signal },
      wake: reconciler.wake,
      changed: nodeLog.note,
    });
    return {
      issuer,
      life,
      changes,
      stats,
      conditions,
      records,
      pluginRecords,
      secrets,
      command: commandDeps,
      quotas: createQuotaRecords({ store, clock, ids, signal }),
      commands,
      snapshots: createSnapshotCommands(commandDeps),
      orphans,
      twoWay,
      repair,
      audit,
      nodeCommands,
      drains,
      fences,
      catalogue,
      logs,
      reconciler,
    };
  };

  let controller = await start();

  /** Work settles; the short pauses between conflicting commits are given the little time that they ask for. */
  const rest = async (): Promise<void> => {
    let done = false;
    const settled = controller.reconciler.idle().then(() => {
      done = true;
    });
    for (let turn = 0; turn < 200 && !done; turn += 1) await manual.advance(turn < 5 ? 0 : 5);
    if (!done) throw new Error("the reconciler never comes to rest");
    await settled;
  };
  /** What each controller of the world does until it is at rest. */
  const rests = beside?.rests ?? [];
  rests.push(async () => {
    if (beside?.stopped?.() !== true) await rest();
  });
  const idle = async (): Promise<void> => {
    for (let n = 0; n < 3; n += 1) for (const each of rests) await each();
  };

  return {
    clock: manual,
    ids,
    rests,
    store,
    nodes: fakeNodes,
    /** The nodes that the controller knows, set or registered. */
    registry: nodes,
    gate,
    backend,
    listings,
    agents,
    log,
    learned,
    attachLimit,
    away,
    /** Of the controller that runs now. */
    placement: () => wirePlacement(controller.command, controller.quotas, controller.life.signal),
    get quotas() {
      return controller.quotas;
    },
    get commands() {
      return controller.commands;
    },
    get snapshots() {
      return controller.snapshots;
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
    get fences() {
      return controller.fences;
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
    get issuer() {
      return controller.issuer;
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
        await manual.advance(Math.min(step, left));
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
      if (beside === undefined) await inner.close();
    },
  };
};
