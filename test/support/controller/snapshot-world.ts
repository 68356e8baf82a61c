/**
 * One controller over a real store and the simulated storage, which police it and outlive it, with the real client side of CSI
 * between them and a clock that the test moves. There are no nodes: volumes are made, cut, copied and deleted here.
 */

import type { AgentGateway } from "@holdfast/controller/agent-ports";
import { createCommands } from "@holdfast/controller/commands/commands";
import type { CreateVolumeInput } from "@holdfast/controller/commands/model";
import { createSecretCommands } from "@holdfast/controller/commands/secret/secret-commands";
import { createSnapshotCommands } from "@holdfast/controller/commands/snapshot/snapshot-commands";
import type { CreateGroupInput, CreateSnapshotInput } from "@holdfast/controller/commands/snapshot/snapshot-types";
import { noLimit } from "@holdfast/controller/domain/attachment/slots";
import type { Seat } from "@holdfast/controller/domain/open-call";
import { nodeOfName } from "@holdfast/controller/domain/plugin/instance-name";
import type { CallTarget } from "@holdfast/controller/domain/plugin/instance-reach";
import type { CutKind, CutRecord } from "@holdfast/controller/domain/snapshot/snapshot";
import type { VolumeRecord } from "@holdfast/controller/domain/volume/volume";
import type { FailpointName } from "@holdfast/controller/failpoints";
import { createControllerPlugins } from "@holdfast/controller/plugins/controller-plugins";
import type { OutOfReach, PluginInstance } from "@holdfast/controller/plugins/plugin-calls";
import type { Store } from "@holdfast/controller/ports";
import { createReconciler } from "@holdfast/controller/reconcile/engine/reconciler";
import { createSnapshotReconciler } from "@holdfast/controller/reconcile/engine/snapshot-reconciler";
import type { SlotGuard } from "@holdfast/controller/reconcile/plugin/call-slots";
import { createLearnedLimits } from "@holdfast/controller/records/attachment/learned-limits";
import { createChanges } from "@holdfast/controller/records/changes";
import { createCutRecords } from "@holdfast/controller/records/snapshot-records";
import { createVolumeRecords } from "@holdfast/controller/records/volume/volume-records";
import { createSealer } from "@holdfast/controller/secrets/sealer";
import { createSecretRecords } from "@holdfast/controller/secrets/secret-records";
import { createSecrets, type Secrets } from "@holdfast/controller/secrets/secrets";
import { createSqliteStore } from "@holdfast/controller/store/sqlite/sqlite-store";
import { callPolicy } from "@holdfast/csi/call-policy";
import { allCaps, controllerCaps, groupCaps, nodeCaps, type PluginFacts, pluginCaps } from "@holdfast/csi/capabilities";
import { createCsiCaller } from "@holdfast/csi/csi-caller";
import { createCsiExchange } from "@holdfast/csi/csi-exchange";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import { createBackend } from "@holdfast/sim-plugin/backend/backend";
import { type BackendSettings, defaultName } from "@holdfast/sim-plugin/backend/settings";
import { vetAnew } from "../../../services/controller/src/store/vet-anew.ts";
import { equalInstances } from "./equal-instances.ts";
import { createSimGates } from "./sim-gates.ts";
import { createSimTransport } from "./sim-transport.ts";
import { caller, secretKeys, volumeInput } from "./world.ts";

export const simPlugin = defaultName;

export const snapshotInput = (
  id: string,
  volume: string,
  change: Partial<CreateSnapshotInput> = {},
): CreateSnapshotInput => ({
  namespace: "default",
  id,
  volume,
  topology: [],
  parameters: {},
  secretRefs: undefined,
  labels: {},
  requestId: "",
  ...change,
});

export const groupInput = (
  id: string,
  members: Readonly<Record<string, string>>,
  change: Partial<CreateGroupInput> = {},
): CreateGroupInput => ({
  namespace: "default",
  id,
  members: Object.entries(members).map(([snapshot, volume]) => ({ snapshot, volume })),
  parameters: {},
  secretRefs: undefined,
  labels: {},
  requestId: "",
  ...change,
});

export const allYes = (): PluginFacts => ({
  name: simPlugin,
  version: "1.0.0",
  manifest: {},
  role: "controller",
  plugin: { ...allCaps(pluginCaps, "yes"), VOLUME_ACCESSIBILITY_CONSTRAINTS: "no" },
  controller: allCaps(controllerCaps, "yes"),
  node: allCaps(nodeCaps, "yes"),
  group: allCaps(groupCaps, "yes"),
});

const unbounded: SlotGuard = {
  aside: () => false,
  allows: () => true,
  repeatsAtOnce: () => 64,
  perNode: () => 1,
  exclusive: () => false,
  overdueMs: () => Number.POSITIVE_INFINITY,
  started: () => () => undefined,
  onChange: () => () => undefined,
};

const noAgents: AgentGateway = new Proxy({} as AgentGateway, {
  get: () => () => Promise.reject(new Error("there are no agents here")),
});

/** Passes everything on and loses answers as told. */
const losing = (inner: Store) => {
  const lose: ("before" | "after")[] = [];
  let away = 0;
  const store: Store = {
    ...inner,
    async commit(commit) {
      if (away > 0) {
        away -= 1;
        throw new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "the store is away" });
      }
      const how = lose.shift();
      if (how === undefined) return await inner.commit(commit);
      if (how === "after") await inner.commit(commit);
      throw new HoldfastError({ kind: "unavailable", reason: "STORE_OUTCOME_UNKNOWN", message: "the answer was lost" });
    },
  };
  return {
    store,
    loseCommits: (...how: readonly ("before" | "after")[]) => void lose.push(...how),
    failCommits(count: number) {
      away = count;
    },
  };
};

export type SnapshotWorld = Awaited<ReturnType<typeof createSnapshotWorld>>;

export const createSnapshotWorld = async (
  options: {
    readonly storage?: BackendSettings;
    /** Where the plugin says that nodes are; the nodes themselves take no part. */
    readonly places?: readonly Readonly<Record<string, string>>[];
    readonly random?: () => number;
    readonly env?: Record<string, string>;
    readonly bars?: () => boolean;
  } = {},
) => {
  const clock = createManualClock();
  let uuids = 0;
  const ids = {
    uuid: () => {
      uuids += 1;
      return `00000000-0000-4000-8000-${uuids.toString(16).padStart(12, "0")}`;
    },
    random: options.random ?? (() => 0.5),
  };
  const sqlite = createSqliteStore({ file: ":memory:", now: clock.now, uuid: ids.uuid });
  await vetAnew(sqlite);
  const { store, loseCommits, failCommits } = losing(sqlite);
  const backend = createBackend({ ...options.storage, clock: () => new Date(clock.now()) });
  const transport = createSimTransport(backend, { clock });
  const log = createMemoryLogger();
  const tracing = createTracing("test");
  let facts = allYes();
  let ready = true;
  const listeners = new Set<(plugin: string) => void>();
  let secretsHeld: Promise<void> | undefined;
  let waitingForSecrets = 0;
  /** Why no instance is known to have what has storage. */
  let reach: OutOfReach | undefined;
  const plainSecrets = createSecrets({
    scope: { files: [], env: Object.keys(options.env ?? {}).map((prefix) => ({ prefix, namespaces: [] })), vault: [] },
    env: options.env ?? {},
    log,
  });
  const slowSecrets: Secrets = {
    ...plainSecrets,
    async read(...asked) {
      if (secretsHeld !== undefined) {
        waitingForSecrets += 1;
        await secretsHeld;
      }
      return await plainSecrets.read(...asked);
    },
  };
  const gate = { open: true, listeners: new Set<() => void>() };
  const learned = createLearnedLimits({ store, clock, ids, signal: new AbortController().signal });
  let lives = 0;
  let killAt: { readonly name: FailpointName; skip: number } | undefined;

  /** Instances that can be called, the one that calls go to first: one beside the controller, unless others are set. */
  let seats: readonly Seat[] = [{ via: "sim" }];
  const gates = createSimGates(transport, clock, () => seats);
  const exchange = createCsiExchange({ plugin: () => simPlugin, tracing, clock });
  const instance = (seat: Seat) => {
    const way = seat.gate === undefined ? transport : gates.gateOf(seat).transport;
    const csi = createCsiCaller({
      plugin: () => simPlugin,
      exchange,
      access: () => (ready ? { facts, transport: way } : { closed: "the plugin is away" }),
    });
    const at = { node: nodeOfName(seat.via) ?? "", socket: "sim" };
    const gate = seat.gate === undefined ? {} : { gate: seat.gate };
    const call: PluginInstance["call"] = (method, request, options) => {
      options.begun?.(method, options.deadlineMs ?? callPolicy[method].deadlineMs);
      return csi.call(method, request, options);
    };
    return { id: seat.via, at, ...gate, facts, rests: false, call, stream: csi.stream };
  };
  const instanceFor = ({ plugin, via, ...subject }: CallTarget) => {
    if (reach !== undefined && Object.keys(subject).length > 0) return undefined;
    const seat = seats.find((one) => (via ?? one.via) === one.via);
    return plugin === simPlugin && ready && seat !== undefined ? instance(seat) : undefined;
  };

  const start = async () => {
    lives += 1;
    const life = new AbortController();
    const { signal } = life;
    const issuer = `c1/${lives}`;
    const ownLives = { issuer, isFormerLife: (other: string) => other.startsWith("c1/") && other !== issuer };
    const route = (target: CallTarget): Seat | undefined => plugins.instance(target);
    const deps = { store, clock, ids, issuer, changes: createChanges(), route, signal };
    const records = createVolumeRecords({ ...deps, attachLimit: () => noLimit, log });
    const cuts = createCutRecords(deps);
    const equals = equalInstances(instanceFor);
    const plugins = createControllerPlugins({
      gates,
      instances: {
        ...equals,
        outOfReach: () => reach,
        every: (plugin) => (reach === undefined ? equals.every(plugin) : { here: [], missing: ["node n9"] }),
        absent: (plugin) => ({ facts: plugin === simPlugin ? facts : undefined, why: "it is away" }),
        names: () => [simPlugin, "other.plugin"],
        onChange(listener) {
          listeners.add(listener);
          return () => listeners.delete(listener);
        },
      },
      guide: { held: () => undefined },
      secrets: slowSecrets,
      log,
      ownerOf: async (storage) => (await records.owner(storage))?.volume,
      announcedByNodes: () => "unknown",
    });
    const views = (options.places ?? []).map((topology) => ({ record: { plugins: [{ name: simPlugin, topology }] } }));
    const nodes = { get: () => undefined, list: () => views, onChange: () => () => undefined } as never;
    const storeGate = {
      state: () => ({ open: gate.open, vetting: { gen: 1, uid: "vetting-1" }, reason: gate.open ? "" : "not vetted" }),
      onChange(listener: () => void) {
        gate.listeners.add(listener);
        return () => gate.listeners.delete(listener);
      },
    };
    const failpoint = (name: FailpointName): void => {
      if (killAt?.name !== name) return;
      killAt.skip -= 1;
      if (killAt.skip >= 0) return;
      killAt = undefined;
      life.abort(new DOMException("killed", "AbortError"));
      signal.throwIfAborted();
    };
    const secrets = createSecretCommands({
      granted: () => true,
      records: createSecretRecords({ store, clock, ids, signal }),
      sealer: createSealer({ keyFile: { keys: async () => secretKeys }, clusterUid: async () => "world" }),
      clock,
      changed: () => undefined,
    });
    const command = { records, cuts, nodes, plugins, gate: storeGate, secrets, feed: store, clock, ids };
    const work = {
      ...command,
      agents: noAgents,
      guard: unbounded,
      learned,
      lives: ownLives,
      bars: options.bars,
      log,
      signal,
      failpoint,
      sent: async () => undefined,
      tracing,
    };
    const reconciler = createReconciler(work);
    const snapshots = createSnapshotReconciler({ ...work, slots: reconciler.slots });
    await Promise.all([reconciler.start(), snapshots.start()]);
    return {
      life,
      work,
      records,
      cuts,
      plugins,
      changes: deps.changes,
      commands: createCommands(command),
      snapshots: createSnapshotCommands(command),
      rest: () => Promise.all([reconciler.idle(), snapshots.idle()]),
      size: () => reconciler.size() + snapshots.size(),
    };
  };

  let controller = await start();

  const idle = async (): Promise<void> => {
    for (let n = 0; n < 3; n += 1) {
      let done = false;
      const settled = controller.rest().then(() => {
        done = true;
      });
      for (let turn = 0; turn < 200 && !done; turn += 1) await clock.advance(turn < 5 ? 0 : 5);
      if (!done) throw new Error("the controller never comes to rest");
      await settled;
    }
  };

  const ref = (id: string) => ({ namespace: "default", id });

  return {
    clock,
    store,
    backend,
    transport,
    log,
    loseCommits,
    failCommits,
    idle,
    caller,
    get commands() {
      return controller.commands;
    },
    get snapshots() {
      return controller.snapshots;
    },
    get changes() {
      return controller.changes;
    },
    /** What the commands of this life are made of. */
    get work() {
      return controller.work;
    },
    get cuts() {
      return controller.cuts;
    },
    get records() {
      return controller.records;
    },
    get alive() {
      return !controller.life.signal.aborted;
    },
    size: () => controller.size(),
    setFacts(change: (facts: PluginFacts) => PluginFacts, isReady = true) {
      facts = change(facts);
      ready = isReady;
      for (const listener of [...listeners]) listener(simPlugin);
    },
    gates,
    setSeats(...next: readonly Seat[]) {
      seats = next;
      for (const listener of [...listeners]) listener(simPlugin);
    },
    setReach(next: OutOfReach | undefined) {
      reach = next;
      for (const listener of [...listeners]) listener(simPlugin);
    },
    /** Whoever reads the secrets of a call waits for it. */
    holdSecrets(until: Promise<void> | undefined) {
      secretsHeld = until;
    },
    secretsHeld: () => waitingForSecrets,
    setGate(open: boolean) {
      gate.open = open;
      for (const listener of [...gate.listeners]) listener();
    },
    killAt(name: FailpointName, skip = 0) {
      killAt = { name, skip };
    },
    spare() {
      killAt = undefined;
    },
    async restart() {
      controller.life.abort(new DOMException("killed", "AbortError"));
      controller = await start();
      await idle();
    },
    /** Lets time pass in small steps, so that retries and polls happen. */
    async pass(ms: number, step = 1_000) {
      for (let left = ms; left > 0; left -= step) {
        await clock.advance(Math.min(step, left));
        await idle();
      }
    },
    async makeVolume(id: string, change: Partial<CreateVolumeInput> = {}): Promise<VolumeRecord> {
      await controller.commands.createVolume(volumeInput(id, { plugin: simPlugin, ...change }), caller);
      await idle();
      return (await controller.commands.getVolume(ref(id))).volume;
    },
    deleteVolume: (id: string) => controller.commands.deleteVolume({ ...ref(id), uid: "", requestId: "" }, caller),
    async snapshot(id: string, volume: string, change: Partial<CreateSnapshotInput> = {}): Promise<CutRecord> {
      await controller.snapshots.createSnapshot(snapshotInput(id, volume, change), caller);
      await idle();
      return (await controller.snapshots.getSnapshot(ref(id))).record;
    },
    async group(id: string, members: Readonly<Record<string, string>>): Promise<CutRecord> {
      await controller.snapshots.createGroup(groupInput(id, members), caller);
      await idle();
      return (await controller.snapshots.getGroup(ref(id))).record;
    },
    async remove(kind: CutKind, id: string, forget = false): Promise<boolean> {
      const gone = await controller.snapshots.deleteCut({ kind, ...ref(id), uid: "", requestId: "", forget }, caller);
      await idle();
      return gone;
    },
    /** As it stands; undefined = there is none. */
    async now(kind: CutKind, id: string): Promise<CutRecord | undefined> {
      return (await controller.cuts.get({ kind, ...ref(id) }))?.record;
    },
    async volumeNow(id: string): Promise<VolumeRecord | undefined> {
      return (await controller.records.get(ref(id)))?.volume;
    },
    /** Calls that reached the plugin, by method. */
    calls: (...methods: readonly string[]): readonly string[] =>
      backend
        .record()
        .map(({ method }) => method)
        .filter((method) => methods.length === 0 || methods.includes(method)),
    async close() {
      controller.life.abort(new DOMException("over", "AbortError"));
      await sqlite.close();
    },
  };
};
