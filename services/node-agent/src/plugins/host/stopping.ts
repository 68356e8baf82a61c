/**
 * Takes hosted instances out of use: one, or all of an allocation together.
 *
 * S1 Together means all or none: while one is needed, or has a call under way, none of them is removed.
 * S2 What was refused goes on working; what waits for its calls gets no new ones.
 */
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";
import { type InstanceKey, keyOf, type RegistryEntry } from "../../domain/plugin-registry.ts";
import { refuseWhileNeeded } from "./instance-errors.ts";

export interface StopOrder {
  readonly allocation: string;
  /** Undefined means all of the allocation. */
  readonly plugin?: string | undefined;
  readonly waitMs: number;
  readonly leaveVolumes: boolean;
}

export interface StopResult {
  readonly stopped: boolean;
  /** What is still under way otherwise. */
  readonly calls: readonly string[];
}

export interface Stopping {
  has(instance: InstanceKey): boolean;
  /** One of the allocation is being stopped. */
  leaves(allocation: string): boolean;
  stop(
    entries: readonly RegistryEntry[],
    order: Pick<StopOrder, "waitMs" | "leaveVolumes">,
    caller: AbortSignal,
  ): Promise<StopResult>;
}

export function createStopping(options: {
  readonly connectionOf: (instance: InstanceKey) => Pick<PluginConnection, "underWay"> | undefined;
  readonly volumesNeeding: (entry: RegistryEntry) => readonly string[];
  readonly remove: (entry: RegistryEntry, message: string) => Promise<void>;
  readonly changed: () => void;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}): Stopping {
  const { connectionOf, volumesNeeding, remove, changed, clock, signal } = options;
  const draining = new Map<string, InstanceKey>();

  const idle = async (entries: readonly RegistryEntry[], waitMs: number, caller: AbortSignal): Promise<void> => {
    const until = linkSignals(caller, signal);
    const stopTimer = clock.timer(waitMs, () => until.abort(new DOMException("time is up", "TimeoutError")));
    await Promise.allSettled(entries.map(({ instance }) => connectionOf(instance)?.underWay.idle(until.signal)));
    stopTimer();
    until.dispose();
  };

  const callsOf = (entries: readonly RegistryEntry[]): readonly string[] =>
    entries.flatMap(({ instance }) => {
      const calls = connectionOf(instance)?.underWay.list() ?? [];
      return entries.length === 1 ? calls : calls.map((call) => `${instance.plugin}: ${call}`);
    });

  return {
    has: (instance) => draining.has(keyOf(instance)),
    leaves: (allocation) => [...draining.values()].some((one) => one.allocation === allocation),
    async stop(entries, { waitMs, leaveVolumes }, caller) {
      const refuse = (): void => {
        if (leaveVolumes) return;
        for (const entry of entries) refuseWhileNeeded(entry, volumesNeeding(entry));
      };
      for (const { instance } of entries) draining.set(keyOf(instance), instance);
      changed();
      try {
        refuse();
        await idle(entries, waitMs, caller);
        const calls = callsOf(entries);
        if (calls.length > 0) return { stopped: false, calls }; // S1
        // A call that ended just now may have mounted something.
        refuse();
      } catch (error) {
        for (const { instance } of entries) draining.delete(keyOf(instance)); // S2
        changed();
        throw error;
      }
      for (const entry of entries) {
        await remove(entry, "StopPlugin was called");
        draining.delete(keyOf(entry.instance));
      }
      return { stopped: true, calls: [] };
    },
  };
}
