/**
 * Keeps what is durable of plugins true: what their versions told, and that nothing is kept of plugins that are gone.
 *
 * Q1 Only what healthy instances agree on is kept, and a failed fingerprint takes nothing away. Q2 A record without instances, volumes
 * and profile goes after a while, compared with the store in the commit that removes it. Q3 A change of one node looks at that node's own
 * instances, and at the others only when it tells something new.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { isAbort } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import { agreedCapabilities, type PluginRecord, withTold } from "../../domain/plugin/plugin-record.ts";
import { toldBy, versionsOf } from "../../domain/plugin/plugin-sighting.ts";
import type { IndexEntry } from "../../domain/store-types.ts";
import type { PluginCatalogue } from "../../ports.ts";
import type { PluginRecords, VersionedPlugin } from "../../records/plugin-records.ts";

export interface PluginKeeperDeps {
  readonly catalogue: PluginCatalogue;
  readonly records: Pick<PluginRecords, "get" | "list" | "change" | "remove" | "onChange">;
  readonly count: (entry: IndexEntry) => Promise<number>;
  /** Without an instance, a volume and a profile; then it goes. */
  readonly emptyForMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface PluginKeeper {
  /** Looks at all that is kept, until the signal; rejects then. */
  run(): Promise<never>;
  /** What it has begun is over; for tests. */
  idle(): Promise<void>;
}

const sweepMs = 60_000;

export const volumesOfPlugin = (plugin: string) => ({ index: "volume-plugin", value: plugin });

export const createPluginKeeper = (deps: PluginKeeperDeps): PluginKeeper => {
  const { catalogue, records, count, emptyForMs, clock, log, signal } = deps;
  const lanes = createKeyedLanes();
  const running = new Set<Promise<void>>();

  /** Q1: what each version told, put into the record. */
  const withWords = (record: PluginRecord): PluginRecord => {
    const well = catalogue.of(record.name).filter(({ plugin, silent }) => plugin.health === "HEALTHY" && !silent);
    return versionsOf(well).reduce((next, version) => {
      const said = well.filter(({ plugin }) => plugin.version === version).map(({ plugin }) => toldBy(plugin));
      return withTold(next, version, agreedCapabilities(said), clock.now());
    }, record);
  };

  /** Whether the instances of one node tell what is not kept yet. Most never do, and then nobody looks at the other nodes. */
  const tellsNews = (plugin: string, node: string): boolean => {
    const known = records.get(plugin)?.record;
    return catalogue
      .at(plugin, node)
      .some(
        ({ plugin: one, silent }) =>
          one.health === "HEALTHY" &&
          !silent &&
          (known === undefined || withTold(known, one.version, toldBy(one), 0) !== known),
      );
  };

  const remember = async (plugin: string): Promise<void> => {
    const known = records.get(plugin)?.record;
    // Nothing to ask the store: what is known here has all of it. It was stored before it was known.
    if (known !== undefined && withWords(known) === known) return;
    await records.change(plugin, withWords);
  };

  const isEmpty = async ({ record }: VersionedPlugin): Promise<boolean> =>
    record.profile === undefined &&
    catalogue.of(record.name).length === 0 &&
    (await count(volumesOfPlugin(record.name))) === 0;

  const sweep = async (found: VersionedPlugin): Promise<void> => {
    const { name, emptySince } = found.record;
    const empty = await isEmpty(found);
    if (!empty && emptySince !== undefined)
      await records.change(name, (record) => {
        const { emptySince: _over, ...rest } = record;
        return record.emptySince === undefined ? record : rest;
      });
    if (empty && emptySince === undefined)
      await records.change(name, (record) =>
        record.emptySince === undefined && record.profile === undefined
          ? { ...record, emptySince: clock.now() }
          : record,
      );
    if (!empty || emptySince === undefined || clock.now() - emptySince < emptyForMs) return;
    const still = ({ record }: VersionedPlugin): boolean =>
      record.profile === undefined && record.emptySince === emptySince && catalogue.of(name).length === 0;
    if (await records.remove(name, still, volumesOfPlugin(name)))
      log.info("a plugin that nobody has is forgotten", { plugin: name });
  };

  const inLane = (plugin: string, work: () => Promise<void>): void => {
    const task = lanes.run(plugin, signal, work).catch((error: unknown) => {
      if (!signal.aborted && !isAbort(error))
        log.warn("what is kept of a plugin could not be brought up to date; it is tried again", { plugin, error });
    });
    running.add(task);
    void task.finally(() => running.delete(task));
  };

  const follow = (plugin: string): void => {
    if (!signal.aborted && lanes.waiting(plugin) === 0) inLane(plugin, () => remember(plugin));
  };

  /** Q3 */
  const look = (plugin: string, node: string): void => {
    if (tellsNews(plugin, node)) follow(plugin);
  };

  const idle = async (): Promise<void> => {
    while (running.size > 0) await Promise.all(running);
  };

  catalogue.onChange(look);

  return {
    async run() {
      return await every(
        sweepMs,
        async () => {
          for (const plugin of catalogue.names())
            if (catalogue.of(plugin).some(({ plugin: { health } }) => health === "HEALTHY")) follow(plugin);
          for (const found of records.list()) inLane(found.record.name, () => sweep(found));
          await idle();
        },
        { signal, clock, immediate: true, onError: (error) => log.error("looking at plugins failed", { error }) },
      );
    },
    idle,
  };
};
