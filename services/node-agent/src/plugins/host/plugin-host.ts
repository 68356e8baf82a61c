/**
 * The plugin instances that a runner hosts through this agent, from PreparePlugin to StopPlugin.
 *
 * P1 Journalled before anything is made, and before the answer: a runner that was answered finds its instance after any crash.
 * P2 What was prepared is supervised from then on, also after a restart of the agent and with no runner listening.
 * P3 An instance that is needed is not stopped: the look comes after the last call has ended, and no new one is let in.
 * P4 All instances of a plugin on this host give the same node id: volumes are attached to it, whoever mounts them.
 */
import type { PluginFacts } from "@holdfast/csi/capabilities";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { linkSignals } from "@holdfast/shared/async/signals";
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import {
  applyRegistryChange,
  differingField,
  entriesOf,
  entryOf,
  type HostedInstance,
  type InstanceKey,
  keyOf,
  type PluginRegistry,
  placeOf,
  type RegistryChange,
  type RegistryEntry,
  type RegistryEvent,
  recordedPlace,
  serves,
  stackOf,
} from "../../domain/plugin-registry.ts";
import type { Ledger } from "../../ports.ts";
import { journalDamaged, refuseFull } from "../../volumes/halts.ts";
import { holdersOf } from "./holders.ts";
import { instanceExists, instanceNotFound } from "./instance-errors.ts";
import type { SocketDirs } from "./socket-dirs.ts";
import { createStopping, type StopOrder, type StopResult } from "./stopping.ts";
import { createSupervision, type Supervision, type SupervisionStep } from "./supervision.ts";

export interface PluginHost {
  registry(): PluginRegistry;
  /** Taken out of use, or about to be. */
  drained(instance: InstanceKey): boolean;
  connectionOf(instance: InstanceKey): PluginConnection | undefined;
  /** Opens what the journal holds. Called once, before anything is served. */
  restore(): Promise<void>;
  /**
   * Resolves when the instances that were ready in an earlier life are so again and every socket that is there was asked
   * who it is, or when the time is up. Never rejects.
   */
  whenBack(mostMs: number): Promise<void>;
  /** Answers the socket's path on the host. */
  prepare(instance: HostedInstance): Promise<string>;
  /** The instance that is meant. Without a plugin: the only one of the allocation. */
  find(allocation: string, plugin: string | undefined): InstanceKey;
  supervise(instance: InstanceKey, signal: AbortSignal): AsyncGenerator<SupervisionStep, void>;
  stop(order: StopOrder, signal: AbortSignal): Promise<StopResult>;
  /** Called after each change of the registry. */
  onChange(listener: (events: readonly RegistryEvent[]) => void): () => void;
  /** The agent goes; the instances stay. */
  close(): Promise<void>;
}

export interface PluginHostOptions {
  readonly ledger: Pick<Ledger, "agent" | "commitAgent" | "volumes" | "damage" | "fullBecause">;
  readonly directory: Pick<PluginDirectory, "add" | "remove" | "settled">;
  readonly dirs: SocketDirs;
  /** Runners can reach it. */
  readonly hosting: boolean;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export function createPluginHost(options: PluginHostOptions): PluginHost {
  const { ledger, directory, dirs, hosting, clock, log, signal } = options;
  const supervisions = new Map<string, Supervision>();
  const supervisionOf = (instance: InstanceKey): Supervision | undefined => supervisions.get(keyOf(instance));
  const lanes = createKeyedLanes();
  const listeners = createEmitter<[events: readonly RegistryEvent[]]>();

  const registry = (): PluginRegistry => ledger.agent().plugins;

  const commit = async ({ allocation }: InstanceKey, change: () => RegistryChange): Promise<void> => {
    // Events, and places, belong to the registry as the record finds it: one change at a time.
    const events = await lanes.run("registry", undefined, async () => {
      const made = change();
      const step = applyRegistryChange(registry(), made);
      if (step.registry !== registry()) await ledger.commitAgent({ type: "plugin", change: made });
      return step.events;
    });
    for (const event of events) log.info("hosted plugins changed", { ...event, cause: allocation });
    listeners.tell(events);
  };

  const refuseWithoutRoom = (): void => {
    if (ledger.damage !== undefined) throw journalDamaged(ledger.damage);
    refuseFull(ledger.fullBecause());
  };

  const newerBeside = ({ instance, order }: RegistryEntry): boolean =>
    stackOf(registry(), "node", instance.plugin).some(
      (other) =>
        other.order > order &&
        !stopping.has(other.instance) &&
        supervisionOf(other.instance)?.connection.status().phase === "ready",
    );

  const volumesNeeding = (entry: RegistryEntry): readonly string[] =>
    entry.order === 0 || !serves(entry.instance.role, "node") || newerBeside(entry)
      ? []
      : holdersOf(ledger.volumes(), entry.instance.plugin);

  const neededBy = (instance: InstanceKey): string | undefined => {
    const entry = entryOf(registry(), instance);
    // A restart is the cure of a call that hangs, so only those that a caller waits for count.
    const calls = supervisionOf(instance)?.connection.underWay.awaited() ?? [];
    const volumes = entry === undefined ? [] : volumesNeeding(entry);
    if (volumes.length > 0) return `${volumes.length} volumes need it, one is ${volumes[0]}`;
    return calls.length > 0 ? `${calls.length} calls are under way, one is ${calls[0]}` : undefined;
  };

  const laneOf = (instance: InstanceKey): string => `instance ${keyOf(instance)}`;

  /** In the lane of its instance: never made again behind the back of its end. */
  const keepPlace = ({ instance, ...entry }: RegistryEntry): Promise<string | undefined> =>
    lanes
      .run(laneOf(instance), signal, async () => {
        if (supervisionOf(instance) !== undefined) await dirs.make(...placeOf({ instance, ...entry }));
        return undefined;
      })
      .catch((error: unknown) => (signal.aborted ? undefined : messageOf(error)));

  const open = (entry: RegistryEntry): void => {
    const { instance, order } = entry;
    const { allocation, plugin, role } = instance;
    const nodeId = knownNodeId(registry(), entry);
    const connection = directory.add(dirs.socketOf(...placeOf(entry)), {
      role,
      instanceId: allocation,
      expectedName: plugin,
      expectedNodeId: nodeId,
    });
    const register = ({ nodeInfo }: PluginFacts): Promise<void> => {
      const said = { at: clock.now(), nodeId: nodeInfo?.nodeId ?? "" };
      return commit(instance, () => ({ type: "registered", ...recordedPlace(entry), ...said }));
    };
    const supervision = createSupervision({
      instance,
      connection,
      wasRegistered: order > 0,
      register,
      keepPlace: () => keepPlace(entry),
      neededBy: () => neededBy(instance),
      clock,
      log,
      signal,
    });
    supervisions.set(keyOf(instance), supervision);
  };

  const remove = async (entry: RegistryEntry, message: string): Promise<void> => {
    const place = placeOf(entry);
    // First out of sight and then out of the registry, so that nobody takes it for a socket that was merely found.
    await directory.remove(dirs.socketOf(...place));
    await commit(entry.instance, () => ({ type: "removed", ...recordedPlace(entry) })); // P1
    supervisionOf(entry.instance)?.stop(message);
    supervisions.delete(keyOf(entry.instance));
    await dirs.remove(...place);
  };

  const stopping = createStopping({
    connectionOf: (instance) => supervisionOf(instance)?.connection,
    volumesNeeding,
    remove,
    changed: () => listeners.tell([]),
    clock,
    signal,
  });

  const stop = async (order: StopOrder, caller: AbortSignal): Promise<StopResult> => {
    if (ledger.damage !== undefined) throw journalDamaged(ledger.damage);
    const entries = entriesOf(registry(), order);
    if (entries.length > 0) return stopping.stop(entries, order, caller); // P3
    // The agent may have been killed between the record of its end and this.
    await dirs.removeLeft(order.allocation, order.plugin, () => registry().entries.map(placeOf));
    return { stopped: true, calls: [] };
  };

  /** Of several instances all lanes, always in the same order. */
  const inLanes = <T>([first, ...others]: readonly string[], caller: AbortSignal, act: () => Promise<T>): Promise<T> =>
    first === undefined ? act() : lanes.run(first, caller, () => inLanes(others, caller, act));

  return {
    registry,
    drained: stopping.has,
    connectionOf: (instance) => supervisionOf(instance)?.connection,
    async restore() {
      const { entries } = registry();
      // Behind the damage of a journal there may be more of them; and who hosts nothing leaves the directory to who does.
      if (ledger.damage === undefined && (hosting || entries.length > 0)) await dirs.sweep(entries.map(placeOf));
      for (const entry of entries) open(entry); // P2
    },
    async whenBack(mostMs) {
      const until = linkSignals(signal);
      const stopTimer = clock.timer(mostMs, () => until.abort(new DOMException("time is up", "TimeoutError")));
      const known = registry().entries.filter(({ order }) => order > 0);
      const connections = known.flatMap(({ instance }) => supervisionOf(instance)?.connection ?? []);
      await Promise.allSettled([
        directory.settled(until.signal),
        ...connections.map((connection) => connection.whenReady(until.signal)),
      ]);
      stopTimer();
      until.dispose();
    },
    prepare: (instance) =>
      lanes.run(laneOf(instance), undefined, async () => {
        const { allocation, plugin } = instance;
        const found = entryOf(registry(), instance);
        const field = found && differingField(found.instance, instance);
        if (found !== undefined && field !== undefined) throw instanceExists(found.instance, instance, field);
        if (found === undefined) refuseWithoutRoom();
        // A journal that was lost knew of it; and what another one is leaving is nobody's place before it is gone.
        const had = await dirs.has(allocation, plugin);
        await commit(instance, () => ({ type: "prepared", instance, ownPlace: had || stopping.leaves(allocation) })); // P1
        const entry = entryOf(registry(), instance);
        if (entry === undefined) throw instanceNotFound(allocation, plugin);
        const place = placeOf(entry);
        await dirs.make(...place);
        if (supervisionOf(instance) === undefined) open(entry); // P2
        return dirs.socketOf(...place);
      }),
    find(allocation, plugin) {
      const [entry, another] = entriesOf(registry(), { allocation, plugin });
      if (entry === undefined) throw instanceNotFound(allocation, plugin);
      if (another === undefined) return entry.instance;
      const names = entriesOf(registry(), { allocation }).map(({ instance }) => instance.plugin);
      const description = `is not named, and allocation ${allocation} has ${names.length} of them here: ${names.join(", ")}`;
      throw invalidArgument([{ field: "plugin", description }]);
    },
    supervise(instance, caller) {
      const supervision = supervisionOf(instance);
      if (supervision === undefined) throw instanceNotFound(instance.allocation, instance.plugin);
      return supervision.follow(caller);
    },
    stop(order, caller) {
      const { allocation, plugin } = order;
      const keys =
        plugin === undefined ? entriesOf(registry(), order).map((it) => it.instance) : [{ allocation, plugin }];
      return inLanes(keys.map(laneOf).sort(), caller, () => stop(order, caller));
    },
    onChange: listeners.on,
    async close() {
      for (const supervision of supervisions.values()) supervision.end();
      listeners.clear();
      await dirs.close();
    },
  };
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** P4: as it said itself, or as the newest instance beside it said. */
function knownNodeId(registry: PluginRegistry, { instance, nodeId }: RegistryEntry): string | undefined {
  if (nodeId !== "") return nodeId;
  if (!serves(instance.role, "node")) return undefined;
  return stackOf(registry, "node", instance.plugin).find((other) => other.nodeId !== "")?.nodeId;
}
