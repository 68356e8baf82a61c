/**
 * A whole controller, handlers to store, over the simulated storage in this process and hosts that outlive it, on a clock that the test
 * moves. It dies at any commit; what it had in memory is gone then, and nothing of that life reaches the store any more.
 */

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
import type { Seat } from "@holdfast/controller/domain/open-call";
import type { CallTarget } from "@holdfast/controller/domain/plugin/instance-reach";
import { secretKey } from "@holdfast/controller/domain/secret/secret";
import { readableFormats } from "@holdfast/controller/domain/store-format";
import { createNodeFigures } from "@holdfast/controller/figures/node-figures";
import { wirePlacement } from "@holdfast/controller/placement-wiring";
import { createControllerPlugins } from "@holdfast/controller/plugins/controller-plugins";
import { createGates } from "@holdfast/controller/plugins/gates";
import { createHalvesOnNodes } from "@holdfast/controller/plugins/halves-on-nodes";
import { createPluginInstances } from "@holdfast/controller/plugins/plugin-instances";
import type { Store } from "@holdfast/controller/ports";
import { createReconciler } from "@holdfast/controller/reconcile/engine/reconciler";
import { createDrainKeeper } from "@holdfast/controller/reconcile/node/drain-keeper";
import { createPluginGovernor } from "@holdfast/controller/reconcile/plugin/plugin-governor";
import { createTwoWayPass } from "@holdfast/controller/reconcile/two-way/two-way-pass";
import { beingCut, snapshotOwner } from "@holdfast/controller/reconcile/two-way/two-way-snapshots";
import { wireRecords } from "@holdfast/controller/record-wiring";
import { createAuditRecords } from "@holdfast/controller/records/audit-records";
import { createChanges, nodeChangeKey } from "@holdfast/controller/records/changes";
import { createOrphanRecords } from "@holdfast/controller/records/orphan-records";
import { createRosterRecords } from "@holdfast/controller/records/roster-records";
import { createVolumeScan } from "@holdfast/controller/records/volume/volume-scan";
import { createSealer } from "@holdfast/controller/secrets/sealer";
import { createSecretRecords } from "@holdfast/controller/secrets/secret-records";
import { createSecrets } from "@holdfast/controller/secrets/secrets";
import { createStoredSecrets } from "@holdfast/controller/secrets/stored-secrets";
import { wireSnapshots } from "@holdfast/controller/snapshot-wiring";
import { createSqliteStore } from "@holdfast/controller/store/sqlite/sqlite-store";
import type { CsiMethod } from "@holdfast/csi/methods";
import { createOpenCalls } from "@holdfast/csi/open-calls";
import type { CsiTransport } from "@holdfast/csi/transport";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { isAbort } from "@holdfast/shared/async/signals";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import { createTracing } from "@holdfast/shared/tracing";
import { createBackend } from "@holdfast/sim-plugin/backend/backend";
import type { NodeSettings } from "@holdfast/sim-plugin/backend/settings";
import { createSimDirectory } from "./sim-directory.ts";
import { createSimHosts, type LinkFault, nodeIdOf } from "./sim-hosts.ts";
import { createSimTransport, type WayFault } from "./sim-transport.ts";
import { allYes, simPlugin } from "./snapshot-world.ts";
import { secretKeys } from "./world.ts";

const graceMs = 10_000;

export interface ApiWorldOptions {
  readonly nodes: Readonly<Record<string, NodeSettings>>;
  readonly random?: () => number;
  readonly snapshotPolls?: number;
  readonly nodeExpansionRequired?: boolean;
}

const unlistened = { socketPath: "", incarnation: "", gone: () => true };

/** The next commits: let through so many, then the controller dies before or after one. */
interface Doom {
  skip: number;
  readonly how: "before" | "after";
}

export type ApiWorld = Awaited<ReturnType<typeof createApiWorld>>;

export const createApiWorld = async (options: ApiWorldOptions) => {
  const clock = createManualClock();
  let uuids = 0;
  const ids = {
    uuid: () => {
      uuids += 1;
      return `00000000-0000-4000-8000-${uuids.toString(16).padStart(12, "0")}`;
    },
    random: options.random ?? (() => 0.5),
  };
  const log = createMemoryLogger();
  const tracing = createTracing("test");
  const sqlite = createSqliteStore({ file: ":memory:", now: clock.now, uuid: ids.uuid });
  await sqlite.markVetted((await sqlite.identity()).runId, 1);
  const names = Object.keys(options.nodes);
  const backend = createBackend({
    clock: () => new Date(clock.now()),
    ...(options.snapshotPolls === undefined ? {} : { snapshotPolls: options.snapshotPolls }),
    ...(options.nodeExpansionRequired === undefined ? {} : { nodeExpansionRequired: options.nodeExpansionRequired }),
    nodes: Object.fromEntries(names.map((name) => [nodeIdOf(name), options.nodes[name] ?? {}])),
  });
  let pick: ((method: CsiMethod) => WayFault | undefined) | undefined;
  const facts = () => {
    const all = allYes();
    return {
      ...all,
      plugin: {
        ...all.plugin,
        VOLUME_ACCESSIBILITY_CONSTRAINTS: "yes" as const,
        VOLUME_EXPANSION_OFFLINE: "no" as const,
      },
    };
  };
  const sockets = ["sim-1.sock", "sim-2.sock"] as const;
  /** Processes of the plugin that get calls and answer none, and how they end. */
  const hanging = new Map<string, PromiseWithResolvers<void>>();
  /** Of the life of the controller that runs: the gate of all its sockets. */
  let openCalls = createOpenCalls({ clock });
  let connected = new AbortController().signal;
  const processes = sockets.map((socket) => {
    const transport = createSimTransport(backend, { name: socket, clock });
    transport.chance((method) => {
      const hung = hanging.get(socket);
      return hung === undefined ? pick?.(method) : { kind: "hung", until: hung.promise };
    });
    /** Each process on the socket, the one that listens now last. */
    const processesOf = [{ socketPath: socket, incarnation: "1", gone: () => false }];
    /** Its connections end with the controller. */
    const tied: CsiTransport = {
      unary: (method, request, { signal, ...more }) =>
        transport.unary(method, request, { ...more, signal: AbortSignal.any([signal, connected]) }),
      stream: (...call) => transport.stream(...call),
    };
    const way: CsiTransport = {
      unary: (...call) => openCalls.over(tied, processesOf.at(-1) ?? unlistened).unary(...call),
      stream: (...call) => transport.stream(...call),
    };
    return {
      socket,
      transport: { ...transport, ...way },
      ready: true,
      facts: facts(),
      denied: new Set<CsiMethod>(),
      /** Another process takes the place of the one that listens. */
      succeed() {
        const last = processesOf.at(-1);
        if (last !== undefined) last.gone = () => true;
        processesOf.push({ socketPath: socket, incarnation: String(processesOf.length + 1), gone: () => false });
      },
    };
  });
  const hosts = createSimHosts(backend, names, clock);
  const machines = new Map(names.map((node) => [node, { boot: 1, journal: 1, revision: 1, healthy: true, known: 0 }]));
  const gate = { open: true, listeners: new Set<() => void>() };
  const lose: ("before" | "after")[] = [];
  let doom: Doom | undefined;
  let lives = 0;
  /** What goes wrong in the background, in the words of whoever noticed. */
  const broken: unknown[] = [];

  const away = (reason: string): HoldfastError =>
    new HoldfastError({ kind: "unavailable", reason, message: "as told" });

  /** The store as one life of the controller sees it. */
  const storeOf = (life: AbortController): Store => {
    const { signal } = life;
    const guarded = { ...sqlite } as Record<string, unknown>;
    for (const name of ["get", "getMany", "list", "count", "due", "nextDue", "head", "identity"] as const)
      guarded[name] = async (...args: readonly unknown[]) => {
        signal.throwIfAborted();
        const found = await (sqlite[name] as (...args: readonly unknown[]) => Promise<unknown>)(...args);
        signal.throwIfAborted();
        return found;
      };
    const commit: Store["commit"] = async (wanted) => {
      signal.throwIfAborted();
      const how = doom !== undefined && doom.skip-- <= 0 ? doom.how : undefined;
      if (how !== undefined) {
        doom = undefined;
        if (how === "after") await sqlite.commit(wanted);
        life.abort(new DOMException("killed", "AbortError"));
        signal.throwIfAborted();
      }
      const lost = lose.shift();
      if (lost === "before") throw away("STORE_OUTCOME_UNKNOWN");
      const result = await sqlite.commit(wanted);
      signal.throwIfAborted();
      if (lost === "after") throw away("STORE_OUTCOME_UNKNOWN");
      return result;
    };
    return { ...(guarded as unknown as Store), commit };
  };

  const start = async () => {
    lives += 1;
    const life = new AbortController();
    const { signal } = life;
    const store = storeOf(life);
    openCalls = createOpenCalls({ clock });
    connected = signal;
    const calls = openCalls;
    const inBackground = (what: string, task: Promise<unknown>): void => {
      task.catch((error: unknown) => {
        if (!signal.aborted && !isAbort(error)) broken.push({ what, error });
      });
    };
    const issuer = `c1/${lives}`;
    const changes = createChanges();
    const route = (target: CallTarget): Seat | undefined => plugins.instance(target);
    const ownLives = { issuer, isFormerLife: (other: string) => other.startsWith("c1/") && other !== issuer };
    const common = { store, clock, ids, issuer, changes, route, log, signal };
    const { cuts, registry, pluginRecords, learnedLimits, records } = await wireRecords({
      ...common,
      graceMs,
      controllerId: "c1",
    });
    const secretRecords = createSecretRecords({ store, clock, ids, signal });
    const sealer = createSealer({ keyFile: { keys: async () => secretKeys }, clusterUid: async () => "world" });
    const stored = createStoredSecrets({ records: secretRecords, sealer, clock });
    const secrets = createSecretCommands({
      granted: () => true,
      records: secretRecords,
      sealer,
      clock,
      changed: (name) => {
        stored.forget(secretKey(name));
        inBackground(
          "waking the users of a secret",
          secretRecords.users(name, undefined, 500, undefined).then((users) => {
            for (const { kind, key } of users) if (kind === "volume") reconciler.wake(key, true);
          }),
        );
      },
    });
    const governor = createPluginGovernor({
      allowed: pluginRecords.of,
      current: (plugin) => instances.current({ plugin }),
      clock,
      random: ids.random,
      log,
      signal,
    });
    const directory = createSimDirectory({ processes, clock, tracing });
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
    const storeGate = {
      state: () => ({ open: gate.open, gen: 1, reason: gate.open ? "" : "not vetted" }),
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
      tracing,
      log,
      signal,
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
    const repair = createRepairCommands({ ...acting, audit, orphans, scan, listings, pass, snapshotFacts });
    const figures = createNodeFigures({ agents: hosts, nodes: registry, clock, signal });
    const stats = createVolumeStats({ records, nodes: registry, clock, figures });
    const nodeLog = createMemoryLog(issuer);
    registry.onChange(nodeLog.note);
    const drains = createDrainKeeper({ nodes: registry, records, clock, log, signal, changed: nodeLog.note });
    const placement = wirePlacement(command, signal);
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
    };
    const snapshots = wireSnapshots({ ...acting, ...api, metrics: createMetrics(), slots: reconciler.slots });
    await Promise.all([reconciler.start(), snapshots.reconciler.start()]);
    inBackground("watching the links of nodes", registry.watchLinks(signal));
    inBackground("following drains", drains.run());
    return {
      life,
      /** The process of each node that has its stream here. */
      links: new Map<string, string>(),
      registry,
      directory,
      governor,
      pass,
      slots: records.slots,
      callsWaiting: () => reconciler.callsWaiting(simPlugin),
      working: () => reconciler.size() + snapshots.reconciler.size(),
      volumes: createVolumeService(api),
      claims: createClaimService(api),
      snapshots: snapshots.service,
      secrets: createSecretService({ secrets, tracing }),
      repair: createRepairService({ gate: storeGate, audit, clock, tracing, commands: repair, upgrade }),
      nodes: createNodeService({
        ...api,
        nodes: registry,
        places: placement.places,
        remarks: (node) => {
          const details = registry.details(node);
          return details && { ...details, overdue: drains.overdue(node) };
        },
        commands: createNodeCommands(command),
        keyOfNode: nodeChangeKey,
        log: nodeLog,
      }),
    };
  };

  let controller = await start();

  const headerOf = (node: string) => {
    const machine = machines.get(node);
    if (machine === undefined) throw new Error(`there is no node ${node}`);
    const { boot, journal } = machine;
    return {
      name: node,
      machineId: `machine-${node}`,
      bootId: `boot-${node}-${boot}`,
      lockId: "",
      instance: `agent-${node}-${boot}`,
      journalUid: `journal-${node}-${journal}`,
      version: "0.1.0",
      verificationScope: "host" as const,
      nodeEpoch: machine.known,
      clusterUid: "",
      fingerprintRevision: machine.revision,
    };
  };
  const pluginOf = (node: string) => {
    const settings = options.nodes[node];
    return {
      name: simPlugin,
      version: "1.0.0",
      instance: `sim-${node}`,
      role: "NODE" as const,
      health: machines.get(node)?.healthy === false ? ("UNHEALTHY" as const) : ("HEALTHY" as const),
      healthMessage: "",
      nodeId: nodeIdOf(node),
      maxVolumes: settings?.maxVolumes ?? 0,
      topology: settings?.topology ?? {},
      capabilities: {},
    };
  };

  const unlink = (node: string): void => {
    const instance = controller.links.get(node);
    controller.links.delete(node);
    if (instance !== undefined) controller.registry.unlinked(node, instance, "the connection was closed");
  };

  /** What an agent does as soon as it can: it dials whom it has no stream to, registers there, and reports what has changed. */
  const meet = async (node: string): Promise<void> => {
    const machine = machines.get(node);
    if (machine === undefined || controller.life.signal.aborted) return;
    if (hosts.silent(node) || controller.links.get(node) !== headerOf(node).instance) unlink(node);
    if (hosts.silent(node)) return;
    const { registry, links } = controller;
    try {
      const { instance, fingerprintRevision: revision } = headerOf(node);
      const base = { node, instance, baseRevision: revision, revision, changed: [], removed: [] };
      const { known } = await registry.report({ ...base, accepting: true, message: "" });
      if (known && links.has(node)) return;
      const record = await registry.register(headerOf(node), [pluginOf(node)]);
      registry.linked(node, instance);
      links.set(node, instance);
      machine.known = record.nodeEpoch;
      hosts.setNodeEpoch(node, record.nodeEpoch);
    } catch (error) {
      if (error instanceof HoldfastError && error.reason === "NODE_PENDING") {
        // The machine was booted: a person says so.
        await registry.change(node, (record) =>
          record.pending === undefined ? record : { ...record, admitted: record.pending.life },
        );
        return;
      }
      if (!isAbort(error) && !controller.life.signal.aborted && !(error instanceof HoldfastError)) broken.push(error);
    }
  };
  /** Moves the clock as long as the work goes on: a decision pauses between its rounds. */
  const inTime = async (work: Promise<unknown>): Promise<void> => {
    let over = false;
    const end = () => {
      over = true;
    };
    work.then(end, end);
    for (await clock.advance(0); !over; ) await clock.advance(1);
    await work;
  };
  const meetings = (): Promise<void> => inTime(Promise.all(names.map(meet)));
  await meetings();

  return {
    clock,
    backend,
    hosts,
    log,
    broken,
    names,
    /** The one that lives now; handlers of its services are called as a server would. */
    get api() {
      return controller;
    },
    get alive() {
      return !controller.life.signal.aborted;
    },
    context(): CallContext {
      return {
        signal: controller.life.signal,
        identity: { role: "scheduler", name: "s1" },
        remainingMs: () => Number.POSITIVE_INFINITY,
        requestId: "",
      } as unknown as CallContext;
    },
    chance(call: typeof pick, between: (() => LinkFault | undefined) | undefined) {
      pick = call;
      hosts.chance(call, between);
    },
    alter(change: Parameters<(typeof processes)[number]["transport"]["alter"]>[0]) {
      for (const { transport } of processes) transport.alter(change);
    },
    loseCommits: (...how: readonly ("before" | "after")[]) => void lose.push(...how),
    /** After `skip` more commits. */
    dieAtCommit(skip: number, how: "before" | "after") {
      doom = { skip, how };
    },
    /** Nothing that was told of commits holds any more. */
    spare() {
      doom = undefined;
      lose.length = 0;
    },
    async restart() {
      controller.life.abort(new DOMException("killed", "AbortError"));
      controller = await start();
      await meetings();
    },
    setGate(open: boolean) {
      gate.open = open;
      for (const listener of [...gate.listeners]) listener();
    },
    setProcess(which: number, ready: boolean) {
      const process = processes[which % processes.length];
      if (process?.ready === false && ready) process.succeed();
      controller.directory.set(process?.socket ?? "", ready);
    },
    /** From now on the process answers no call that it gets. */
    hang(which: 0 | 1) {
      hanging.set(sockets[which], Promise.withResolvers<void>());
    },
    /** Another process takes its place; what the one before had in hand is over. */
    replace(which: 0 | 1) {
      const name = sockets[which];
      controller.directory.set(name, false);
      backend.attach({ name, role: "controller" });
      hanging.get(name)?.resolve();
      hanging.delete(name);
      processes[which]?.succeed();
      controller.directory.set(name, true);
    },
    async setHealthy(node: string, healthy: boolean) {
      const machine = machines.get(node);
      if (machine === undefined || machine.healthy === healthy) return;
      machine.healthy = healthy;
      machine.revision += 1;
      await inTime(meet(node));
    },
    async reboot(node: string, journalLost: boolean) {
      const machine = machines.get(node);
      if (machine === undefined) return;
      machine.boot += 1;
      if (journalLost) {
        machine.journal += 1;
        machine.known = 0;
      }
      // Until it has registered it takes nobody's orders.
      hosts.setNodeEpoch(node, 0);
      hosts.reboot(node, journalLost);
      await inTime(meet(node));
    },
    /** Time passes, agents dial and report, and a controller that died is started again after a while. */
    async pass(ms: number, step = 5_000) {
      for (let left = ms; left > 0; left -= step) {
        await meetings();
        await clock.advance(Math.min(step, left));
        if (controller.life.signal.aborted) {
          controller = await start();
          await meetings();
        }
      }
    },
    async close() {
      controller.life.abort(new DOMException("over", "AbortError"));
      await clock.advance(0);
      await sqlite.close();
    },
  };
};
