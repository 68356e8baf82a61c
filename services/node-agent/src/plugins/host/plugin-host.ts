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
import type { Logger } from "@holdfast/shared/log/logger";
import {
  applyRegistryChange,
  differingField,
  entryOf,
  type HostedInstance,
  type PluginRegistry,
  type RegistryChange,
  type RegistryEntry,
  type RegistryEvent,
  serves,
  stackOf,
} from "../../domain/plugin-registry.ts";
import type { Ledger } from "../../ports.ts";
import { journalDamaged, journalFull } from "../../volumes/halts.ts";
import { holdersOf } from "./holders.ts";
import { instanceExists, instanceNotFound, refuseWhileNeeded } from "./instance-errors.ts";
import type { SocketDirs } from "./socket-dirs.ts";
import { createSupervision, type Supervision, type SupervisionStep } from "./supervision.ts";

export interface PluginHost {
  registry(): PluginRegistry;
  /** Taken out of use, or about to be. */
  drained(allocation: string): boolean;
  connectionOf(allocation: string): PluginConnection | undefined;
  /** Opens what the journal holds. Called once, before anything is served. */
  restore(): Promise<void>;
  /**
   * Resolves when the instances that were ready in an earlier life are so again and every socket that is there was asked
   * who it is, or when the time is up. Never rejects.
   */
  whenBack(mostMs: number): Promise<void>;
  /** Answers the socket's path on the host. */
  prepare(instance: HostedInstance): Promise<string>;
  supervise(allocation: string, signal: AbortSignal): AsyncGenerator<SupervisionStep, void>;
  stop(order: StopOrder, signal: AbortSignal): Promise<StopResult>;
  /** Called after each change of the registry. */
  onChange(listener: (events: readonly RegistryEvent[]) => void): () => void;
  /** The agent goes; the instances stay. */
  close(): Promise<void>;
}

export interface StopOrder {
  readonly allocation: string;
  readonly waitMs: number;
  readonly leaveVolumes: boolean;
}

export interface StopResult {
  readonly stopped: boolean;
  /** What is still under way otherwise. */
  readonly calls: readonly string[];
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
  const draining = new Set<string>();
  const lanes = createKeyedLanes();
  const listeners = createEmitter<[events: readonly RegistryEvent[]]>();

  const registry = (): PluginRegistry => ledger.agent().plugins;

  const commit = async (change: RegistryChange): Promise<void> => {
    const allocation = change.type === "prepared" ? change.instance.allocation : change.allocation;
    // Events belong to the registry as the record finds it: one change at a time.
    const events = await lanes.run("registry", undefined, async () => {
      const step = applyRegistryChange(registry(), change);
      if (step.registry !== registry()) await ledger.commitAgent({ type: "plugin", change });
      return step.events;
    });
    for (const event of events) log.info("hosted plugins changed", { ...event, cause: allocation });
    listeners.tell(events);
  };

  const refuseWithoutRoom = (): void => {
    if (ledger.damage !== undefined) throw journalDamaged(ledger.damage);
    const full = ledger.fullBecause();
    if (full !== undefined) throw journalFull(full);
  };

  const newerBeside = ({ instance, order }: RegistryEntry): boolean =>
    stackOf(registry(), "node", instance.plugin).some(
      (other) =>
        other.order > order &&
        other.instance.allocation !== instance.allocation &&
        !draining.has(other.instance.allocation) &&
        supervisions.get(other.instance.allocation)?.connection.status().phase === "ready",
    );

  const volumesNeeding = (entry: RegistryEntry): readonly string[] =>
    entry.order === 0 || !serves(entry.instance.role, "node") || newerBeside(entry)
      ? []
      : holdersOf(ledger.volumes(), entry.instance.plugin);

  const neededBy = (allocation: string): string | undefined => {
    const entry = entryOf(registry(), allocation);
    // A restart is the cure of a call that hangs, so only those that a caller waits for count.
    const calls = supervisions.get(allocation)?.connection.underWay.awaited() ?? [];
    const volumes = entry === undefined ? [] : volumesNeeding(entry);
    if (volumes.length > 0) return `${volumes.length} volumes need it, one is ${volumes[0]}`;
    return calls.length > 0 ? `${calls.length} calls are under way, one is ${calls[0]}` : undefined;
  };

  /** In the lane of its allocation: never made again behind the back of its end. */
  const keepPlace = (allocation: string): Promise<string | undefined> =>
    lanes
      .run(`allocation ${allocation}`, signal, async () => {
        if (supervisions.has(allocation)) await dirs.make(allocation);
        return undefined;
      })
      .catch((error: unknown) => (signal.aborted ? undefined : messageOf(error)));

  const open = (entry: RegistryEntry): void => {
    const { instance, order } = entry;
    const { allocation, plugin, role } = instance;
    const nodeId = knownNodeId(registry(), entry);
    const connection = directory.add(dirs.socketOf(allocation), {
      role,
      instanceId: allocation,
      expectedName: plugin,
      expectedNodeId: nodeId,
    });
    const register = ({ nodeInfo }: PluginFacts): Promise<void> =>
      commit({ type: "registered", allocation, at: clock.now(), nodeId: nodeInfo?.nodeId ?? "" });
    const supervision = createSupervision({
      instance,
      connection,
      wasRegistered: order > 0,
      register,
      keepPlace: () => keepPlace(allocation),
      neededBy: () => neededBy(allocation),
      clock,
      log,
      signal,
    });
    supervisions.set(allocation, supervision);
  };

  const remove = async (allocation: string, message: string): Promise<void> => {
    // First out of sight and then out of the registry, so that nobody takes it for a socket that was merely found.
    await directory.remove(dirs.socketOf(allocation));
    await commit({ type: "removed", allocation }); // P1
    supervisions.get(allocation)?.stop(message);
    supervisions.delete(allocation);
    await dirs.remove(allocation);
    draining.delete(allocation);
  };

  const stop = async ({ allocation, waitMs, leaveVolumes }: StopOrder, caller: AbortSignal): Promise<StopResult> => {
    const entry = entryOf(registry(), allocation);
    if (ledger.damage !== undefined) throw journalDamaged(ledger.damage);
    if (entry === undefined) {
      // The agent may have been killed between the record of its end and this.
      await dirs.remove(allocation);
      return { stopped: true, calls: [] };
    }
    draining.add(allocation); // P3
    listeners.tell([]);
    try {
      if (!leaveVolumes) refuseWhileNeeded(entry, volumesNeeding(entry));
      const underWay = supervisions.get(allocation)?.connection.underWay;
      const until = linkSignals(caller, signal);
      const stopTimer = clock.timer(waitMs, () => until.abort(new DOMException("time is up", "TimeoutError")));
      await underWay?.idle(until.signal).catch(() => undefined);
      stopTimer();
      until.dispose();
      const calls = underWay?.list() ?? [];
      if (calls.length > 0) return { stopped: false, calls };
      // A call that ended just now may have mounted something.
      if (!leaveVolumes) refuseWhileNeeded(entry, volumesNeeding(entry));
    } catch (error) {
      draining.delete(allocation);
      listeners.tell([]);
      throw error;
    }
    await remove(allocation, "StopPlugin was called");
    return { stopped: true, calls: [] };
  };

  return {
    registry,
    drained: (allocation) => draining.has(allocation),
    connectionOf: (allocation) => supervisions.get(allocation)?.connection,
    async restore() {
      const { entries } = registry();
      // Behind the damage of a journal there may be more of them; and who hosts nothing leaves the directory to who does.
      if (ledger.damage === undefined && (hosting || entries.length > 0))
        await dirs.sweep(entries.map(({ instance }) => instance.allocation));
      for (const entry of entries) open(entry); // P2
    },
    async whenBack(mostMs) {
      const until = linkSignals(signal);
      const stopTimer = clock.timer(mostMs, () => until.abort(new DOMException("time is up", "TimeoutError")));
      const known = registry().entries.filter(({ order }) => order > 0);
      const connections = known.flatMap(({ instance }) => supervisions.get(instance.allocation)?.connection ?? []);
      await Promise.allSettled([
        directory.settled(until.signal),
        ...connections.map((connection) => connection.whenReady(until.signal)),
      ]);
      stopTimer();
      until.dispose();
    },
    prepare: (instance) =>
      lanes.run(`allocation ${instance.allocation}`, undefined, async () => {
        const { allocation } = instance;
        const found = entryOf(registry(), allocation);
        const field = found && differingField(found.instance, instance);
        if (field !== undefined) throw instanceExists(instance, field);
        if (found === undefined) refuseWithoutRoom();
        await commit({ type: "prepared", instance }); // P1
        await dirs.make(allocation);
        const entry = entryOf(registry(), allocation);
        if (entry !== undefined && !supervisions.has(allocation)) open(entry); // P2
        return dirs.socketOf(allocation);
      }),
    supervise(allocation, caller) {
      const supervision = supervisions.get(allocation);
      if (supervision === undefined) throw instanceNotFound(allocation);
      return supervision.follow(caller);
    },
    stop: (order, caller) => lanes.run(`allocation ${order.allocation}`, caller, () => stop(order, caller)),
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
