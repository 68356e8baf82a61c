/** One life of a whole controller, handlers to ports, with processes of the simulated plugin beside it. */

import type { AgentGateway } from "@holdfast/controller/agent-ports";
import { createClaimService } from "@holdfast/controller/api/claim/claim-service";
import { createMemoryLog } from "@holdfast/controller/api/memory-log";
import { createNodeService } from "@holdfast/controller/api/node/node-service";
import { createRepairService } from "@holdfast/controller/api/repair/repair-service";
import { createSecretService } from "@holdfast/controller/api/secret/secret-service";
import { createVolumeService } from "@holdfast/controller/api/volume/volume-service";
import { createCommands } from "@holdfast/controller/commands/commands";
import { createNodeCommands } from "@holdfast/controller/commands/node/node-commands";
import { createRepairCommands } from "@holdfast/controller/commands/repair/repair-commands";
import { createSecretCommands } from "@holdfast/controller/commands/secret/secret-commands";
import { createUpgradeCommands } from "@holdfast/controller/commands/upgrade/upgrade-commands";
import { listExternalVolumesQuery } from "@holdfast/controller/commands/volume/list-external-volumes";
import { createVolumeStats } from "@holdfast/controller/commands/volume/volume-stats";
import { everything } from "@holdfast/controller/domain/access/caller-scope";
import type { RouteOf } from "@holdfast/controller/domain/plugin/instance-reach";
import { type SecretName, secretKey } from "@holdfast/controller/domain/secret/secret";
import { readableFormats } from "@holdfast/controller/domain/store-format";
import { wireFeed } from "@holdfast/controller/feed-wiring";
import { createNodeFigures } from "@holdfast/controller/figures/node-figures";
import { wirePlacement } from "@holdfast/controller/placement-wiring";
import { createControllerPlugins } from "@holdfast/controller/plugins/controller-plugins";
import { createGates } from "@holdfast/controller/plugins/gates";
import { createHalvesOnNodes } from "@holdfast/controller/plugins/halves-on-nodes";
import { createPluginInstances } from "@holdfast/controller/plugins/plugin-instances";
import type { Ids, Store } from "@holdfast/controller/ports";
import { createReconciler } from "@holdfast/controller/reconcile/engine/reconciler";
import { createDrainKeeper } from "@holdfast/controller/reconcile/node/drain-keeper";
import { createFenceKeeper } from "@holdfast/controller/reconcile/node/fence-keeper";
import { createPluginDrivers } from "@holdfast/controller/reconcile/plugin/plugin-drivers";
import { createPluginGovernor } from "@holdfast/controller/reconcile/plugin/plugin-governor";
import { createTwoWayPass } from "@holdfast/controller/reconcile/two-way/two-way-pass";
import { beingCut, snapshotOwner } from "@holdfast/controller/reconcile/two-way/two-way-snapshots";
import { wireRecords } from "@holdfast/controller/record-wiring";
import { createAccessGrants } from "@holdfast/controller/records/access/access-grants";
import { createAuditRecords } from "@holdfast/controller/records/audit-records";
import { runChangeFeed } from "@holdfast/controller/records/change-feed";
import { createChanges, nodeChangeKey } from "@holdfast/controller/records/changes";
import { createOrphanRecords } from "@holdfast/controller/records/orphan-records";
import { createQuotaRecords } from "@holdfast/controller/records/quota/quota-records";
import { createRosterRecords } from "@holdfast/controller/records/roster-records";
import { createSharerRecords } from "@holdfast/controller/records/sharer-records";
import { createVolumeScan } from "@holdfast/controller/records/volume/volume-scan";
import { createSealer } from "@holdfast/controller/secrets/sealer";
import { createSecretRecords } from "@holdfast/controller/secrets/secret-records";
import { createSecrets } from "@holdfast/controller/secrets/secrets";
import { createStoredSecrets } from "@holdfast/controller/secrets/stored-secrets";
import { wireSnapshots } from "@holdfast/controller/snapshot-wiring";
import type { OpenCalls } from "@holdfast/csi/open-calls";
import type { Clock } from "@holdfast/shared/async/clock";
import { isAbort } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import type { ProcessesBeside } from "./processes-beside.ts";
import { createSimDirectory } from "./sim-directory.ts";
import { simPlugin } from "./snapshot-world.ts";
import { secretKeys } from "./world.ts";

const graceMs = 10_000;

export interface ControllerLifeDeps {
  readonly id: string;
  /** Which of its lives it is, from 1. */
  readonly number: number;
  /** Another controller uses the store. */
  readonly shared: boolean;
  /** As this life sees it. */
  readonly store: Store;
  readonly hosts: AgentGateway;
  readonly beside: Pick<ProcessesBeside, "processes">;
  /** The gate of the sockets beside it. */
  readonly calls: OpenCalls;
  readonly gate: { open: boolean; readonly listeners: Set<() => void> };
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Logger;
  readonly tracing: Tracing;
  readonly broken: unknown[];
  readonly signal: AbortSignal;
}

export type ControllerLife = Awaited<ReturnType<typeof startControllerLife>>;

export const startControllerLife = async (deps: ControllerLifeDeps) => {
  const { id, number, shared, store, hosts, beside, calls, gate, clock, ids, log, tracing, broken, signal } = deps;
  const inBackground = (what: string, task: Promise<unknown>): void => {
    task.catch((error: unknown) => {
      if (!signal.aborted && !isAbort(error)) broken.push({ what, error });
    });
  };
  const issuer = `${id}/${number}`;
  const changes = createChanges();
  const route: RouteOf = (target, key) =>
    drivers?.keeps(target.plugin, key) === false ? undefined : plugins.instance(target);
  const ownLives = { issuer, isFormerLife: (other: string) => other.startsWith(`${id}/`) && other !== issuer };
  const common = { store, clock, ids, issuer, changes, route, log, signal };
  const { cuts, registry, pluginRecords, learnedLimits, denials, records } = await wireRecords({
    grants: undefined,
    ...common,
    graceMs,
    controllerId: id,
  });
  const secretRecords = createSecretRecords({ store, clock, ids, signal });
  const sealer = createSealer({ keyFile: { keys: async () => secretKeys }, clusterUid: async () => "world" });
  const stored = createStoredSecrets({ records: secretRecords, sealer, clock });
  const forgetSecret = (name: SecretName): void => {
    stored.forget(secretKey(name));
    inBackground(
      "waking the users of a secret",
      secretRecords.users(name, undefined, 500, undefined).then((users) => {
        for (const { kind, key } of users) if (kind === "volume") reconciler.wake(key, true);
      }),
    );
  };
  const secrets = createSecretCommands({
    granted: () => true,
    records: secretRecords,
    sealer,
    clock,
    changed: (name) => forgetSecret(name),
  });
  const governor = createPluginGovernor({
    allowed: (plugin) => drivers?.shareOf(plugin, pluginRecords.of(plugin)) ?? pluginRecords.of(plugin),
    current: (plugin) => instances.current({ plugin }),
    clock,
    random: ids.random,
    log,
    signal,
  });
  const directory = createSimDirectory({ processes: beside.processes, clock, tracing });
  const halves = createHalvesOnNodes(registry);
  const instances = createPluginInstances({
    directory,
    halves,
    lines: {
      transportTo: () => {
        throw new Error("no controller half runs on a node here");
      },
      forget: () => undefined,
    },
    clock,
    tracing,
    guide: governor,
    reading: (_plugin, _method, code) => code,
    besideControllerOnly: () => false,
    reach: () => "auto",
  });
  const plugins = createControllerPlugins({
    gates: createGates(
      { quiesce: (_plugin, ...asked) => calls.quiesce(...asked) },
      {
        quiesce: async () => {
          throw new Error("no controller half runs on a node here");
        },
      },
    ),
    instances,
    announcedByNodes: halves.announced,
    guide: governor,
    secrets: createSecrets({ env: {}, stored, log }),
    log,
    clock,
    ownerOf: async (storage) => (await records.owner(storage))?.volume,
  });
  const { listings } = plugins;
  const drivers = shared
    ? createPluginDrivers({
        sharers: createSharerRecords({ store, clock, ids, signal: AbortSignal.any([]) }),
        ...ownLives,
        allowed: pluginRecords.of,
        reachable: () => instances.names().filter((plugin) => instances.current({ plugin }) !== undefined),
        clock,
        log,
        signal,
      })
    : undefined;
  const storeGate = {
    state: () => ({ open: gate.open, vetting: { gen: 1, uid: "vetting-1" }, reason: gate.open ? "" : "not vetted" }),
    onChange(listener: () => void) {
      gate.listeners.add(listener);
      return () => gate.listeners.delete(listener);
    },
    findings: () => [],
    accept: async () => undefined,
  };
  const command = { records, cuts, nodes: registry, plugins, gate: storeGate, secrets, feed: store, clock, ids };
  const commands = createCommands(command);
  const acting = {
    ...command,
    agents: hosts,
    learned: learnedLimits,
    guard: governor,
    lives: ownLives,
    drivers,
    tracing,
    log,
    signal,
    sent: async () => undefined,
  };
  const reconciler = createReconciler(acting);
  const audit = createAuditRecords({ store, ids });
  const orphans = createOrphanRecords({ store, clock, ids, signal });
  const scan = createVolumeScan(store);
  const pass = createTwoWayPass({ ...acting, listings, orphans, scan });
  const snapshotFacts = {
    owner: (plugin: string, externalId: string) => snapshotOwner({ cuts }, plugin, externalId),
    beingCut: (plugin: string) => beingCut({ cuts }, plugin),
  };
  const roster = createRosterRecords({ store, clock, ids, signal });
  const upgrade = createUpgradeCommands({ roster, audit, store, formats: readableFormats, clock });
  const repair = createRepairCommands({
    ...acting,
    words: undefined,
    audit,
    orphans,
    scan,
    listings,
    pass,
    snapshotFacts,
  });
  const figures = createNodeFigures({ agents: hosts, nodes: registry, clock, signal });
  const stats = createVolumeStats({ records, nodes: registry, clock, figures });
  const nodeLog = createMemoryLog(issuer);
  registry.onChange(nodeLog.note);
  const drains = createDrainKeeper({ nodes: registry, records, clock, log, signal, changed: nodeLog.note });
  const fences = createFenceKeeper({ ...acting, nodes: registry, wake: reconciler.wake, changed: nodeLog.note });
  const quotas = createQuotaRecords({ store, clock, ids, signal });
  const placement = wirePlacement(command, quotas, signal);
  const listExternalVolumes = listExternalVolumesQuery({ records, plugins, listings });
  const api = {
    commands,
    recent: records.recent,
    listExternalVolumes,
    granted: secrets.granted,
    wakeups: changes,
    feed: store,
    clock,
    tracing,
    stats,
    scopeOf: () => everything,
  };
  const snapshots = wireSnapshots({ ...acting, ...api, metrics: createMetrics(), slots: reconciler.slots });
  if (drivers !== undefined) {
    inBackground("settling who calls which plugin", drivers.run());
    const { learned } = reconciler;
    const { learnOf: learnOfCut } = snapshots.reconciler;
    const missed = () => Promise.all([reconciler.missed(), snapshots.reconciler.missed()]);
    const heard = { changed: forgetSecret, forgetAll: stored.forgetAll };
    const kept = { records, registry, pluginRecords, learnedLimits, denials };
    const parts = { ...kept, changes, learned, learnOfCut, missed, inBackground };
    const accessGrants = createAccessGrants({ store, clock, ids, signal });
    const feed = wireFeed({ ...parts, accessGrants, secrets: heard });
    inBackground("following the store", runChangeFeed({ ...feed, store, clock, log, signal }));
  }
  await Promise.all([reconciler.start(), snapshots.reconciler.start()]);
  inBackground("watching the links of nodes", registry.watchLinks(signal));
  inBackground("following drains", drains.run());
  inBackground("following fences", fences.run());
  return {
    issuer,
    /** The process of each node that has its stream here. */
    links: new Map<string, string>(),
    registry,
    linked: reconciler.linked,
    directory,
    governor,
    pass,
    slots: records.slots,
    callsWaiting: () => reconciler.callsWaiting(simPlugin),
    working: () => reconciler.size() + snapshots.reconciler.size(),
    volumes: createVolumeService(api),
    claims: createClaimService(api),
    snapshots: snapshots.service,
    secrets: createSecretService({ ...api, secrets, tracing }),
    repair: createRepairService({ ...api, gate: storeGate, audit, clock, tracing, commands: repair, upgrade }),
    nodes: createNodeService({
      ...api,
      nodes: registry,
      places: placement.places,
      remarks: (node) => {
        const details = registry.details(node);
        return details && { ...details, overdue: drains.overdue(node), fenceWaits: fences.waitsFor(node) };
      },
      commands: createNodeCommands({ ...command, audit, profiles: pluginRecords }),
      keyOfNode: nodeChangeKey,
      log: nodeLog,
    }),
  };
};
