/**
 * Misses instances that are gone: an instance that died is not one that nobody wants.
 *
 * M1 What is back within `missedAfterMs`, as with every restart, is written nowhere. M2 It is missed until it is back, its node is
 * forgotten, or a person says that the node shall have none; one that its runner has stopped is not missed. M3 What could not be stored is tried again.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { isAbort } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { NodePlugin } from "../../domain/node/node.ts";
import { withMissed } from "../../domain/plugin/missed-instances.ts";
import type { LastSeen, MissedInstance } from "../../domain/plugin/plugin-record.ts";
import type { Nodes, PluginCatalogue } from "../../ports.ts";
import type { PluginRecords } from "../../records/plugin-records.ts";

export interface MissedKeeperDeps {
  readonly catalogue: PluginCatalogue;
  readonly records: Pick<PluginRecords, "get" | "list" | "change">;
  readonly nodes: Pick<Nodes, "get" | "onChange">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface Gone {
  readonly missed: MissedInstance;
  /** On the monotonic clock. */
  readonly at: number;
}

const lookMs = 5_000;
export const missedAfterMs = 30_000;

export const createMissedKeeper = (deps: MissedKeeperDeps) => {
  const { catalogue, records, nodes, clock, log, signal } = deps;
  /** The node halves that run, by plugin and node. */
  const running = new Map<string, Map<string, NodePlugin>>();
  const gone = new Map<string, Map<string, Gone>>();
  const last = new Map<string, LastSeen>();
  const news = new Set<string>();

  const of = <T>(all: Map<string, Map<string, T>>, plugin: string): Map<string, T> => {
    const found = all.get(plugin) ?? new Map<string, T>();
    all.set(plugin, found);
    return found;
  };

  const look = (plugin: string, node: string): void => {
    const here = catalogue.at(plugin, node);
    const half = node === "" ? undefined : here.find(({ plugin: { role } }) => role !== "CONTROLLER");
    const before = of(running, plugin).get(node);
    if (half !== undefined) {
      of(running, plugin).set(node, half.plugin);
      of(gone, plugin).delete(node);
    } else if (before !== undefined) {
      of(running, plugin).delete(node);
      if (before.hosted !== true)
        of(gone, plugin).set(node, {
          missed: { since: clock.now(), version: before.version },
          at: clock.monotonic(),
        });
    }
    if (here.length === 0 && catalogue.of(plugin).length === 0) last.set(plugin, { node, at: clock.now() });
    else last.delete(plugin);
    if ((half === undefined) !== (before === undefined) || last.has(plugin)) news.add(plugin);
  };

  const store = async (plugin: string): Promise<void> => {
    const due = [...of(gone, plugin)].flatMap(([node, { missed, at }]) =>
      clock.monotonic() - at >= missedAfterMs ? [[node, missed] as const] : [],
    ); // M1
    const now = {
      runsOn: (node: string) => of(running, plugin).has(node),
      hasNode: (node: string) => nodes.get(node) !== undefined,
      gone: Object.fromEntries(due),
      last: last.get(plugin),
    };
    const known = records.get(plugin)?.record;
    if (known !== undefined && withMissed(known, now) !== known)
      await records.change(plugin, (record) => withMissed(record, now));
    for (const [node] of due) of(gone, plugin).delete(node);
    if (of(gone, plugin).size === 0) news.delete(plugin);
  };

  for (const plugin of catalogue.names())
    for (const { node } of catalogue.of(plugin)) if (!running.get(plugin)?.has(node)) look(plugin, node);
  for (const { record } of records.list()) news.add(record.name);
  catalogue.onChange(look);
  // A node without an instance tells the catalogue nothing when it is forgotten.
  nodes.onChange((node) => {
    if (nodes.get(node) !== undefined) return;
    for (const { record } of records.list()) if (record.missed?.[node] !== undefined) news.add(record.name);
  });

  return {
    /** Until the signal; rejects then. */
    run: (): Promise<never> =>
      every(
        lookMs,
        async () => {
          for (const plugin of [...news])
            await store(plugin).catch((error: unknown) => {
              if (signal.aborted || isAbort(error)) throw error;
              log.warn("which instances of a plugin are missed could not be stored; it is tried again", {
                plugin,
                error,
              }); // M3
            });
        },
        {
          signal,
          clock,
          immediate: true,
          onError: (error) => log.error("looking at missed plugins failed", { error }),
        },
      ),
  };
};
