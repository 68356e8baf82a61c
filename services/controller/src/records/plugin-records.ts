/**
 * The durable part of the plugin catalogue. There are few plugins, and every call to one asks for its profile: all of them are kept in
 * memory, and the store is read when somebody else wrote.
 *
 * P1 A record is stored before anybody here sees it.
 */

import { lastSeenOf } from "../domain/plugin/missed-instances.ts";
import { defaultProfile } from "../domain/plugin/plugin-profile.ts";
import { newPluginRecord, type PluginRecord, rememberedOf } from "../domain/plugin/plugin-record.ts";
import { secretUsers } from "../domain/secret/secret.ts";
import type { AggregateRef, IndexEntry } from "../domain/store-types.ts";
import type { PluginProfiles } from "../ports.ts";
import { changedAllTheTime } from "./commit-rounds.ts";
import { createDamagedRecords } from "./damaged-records.ts";
import { createRecordTable, type RecordTableDeps, recordAfter, type Versioned } from "./record-table.ts";
import { pluginShape } from "./shape/plugin-shape.ts";
import { recordReader } from "./shape/record-reader.ts";

export type VersionedPlugin = Versioned<PluginRecord>;

export interface PluginRecords extends PluginProfiles {
  /** Reads every record: before anything is called, and whenever changes may have been missed. */
  load(): Promise<void>;
  get(plugin: string): VersionedPlugin | undefined;
  list(): readonly VersionedPlugin[];
  /** Plugins whose profiles name the pool of attach slots, in order. */
  inPool(pool: string): readonly string[];
  /**
   * What `decide` makes of the record, stored; the same record again is not written. `decide` may throw. It is asked again when another
   * controller was faster.
   */
  change(plugin: string, decide: (record: PluginRecord, rev: number) => PluginRecord): Promise<VersionedPlugin>;
  /** Removes the record as long as nothing carries the entry. False: something does. */
  remove(plugin: string, guard: (found: VersionedPlugin) => boolean, unless: IndexEntry): Promise<boolean>;
  /** Another controller wrote it. */
  learnOf(plugin: string): Promise<void>;
}

const index: IndexEntry = { index: "plugin-all", value: "all" };

const refOf = (plugin: string): AggregateRef => ({ kind: "plugin", key: plugin });

export const readPlugin = recordReader<PluginRecord>({ shape: pluginShape, keyOf: ({ name }) => name });

export const createPluginRecords = (deps: RecordTableDeps): PluginRecords => {
  const { clock, damages = createDamagedRecords() } = deps;
  const known = new Map<string, VersionedPlugin>();
  const listeners = new Set<(plugin: string) => void>();

  /** P1 */
  const saw = (plugin: string, found: VersionedPlugin | undefined): void => {
    const before = known.get(plugin);
    if (found === undefined) known.delete(plugin);
    else known.set(plugin, found);
    if (before?.rev === found?.rev) return;
    for (const listener of [...listeners]) listener(plugin);
  };

  const table = createRecordTable<string, PluginRecord>(
    { ...deps, damages },
    {
      refOf,
      read: readPlugin,
      encode: (record) => ({
        body: JSON.stringify(record),
        indexes: [index, ...secretUsers([record.profile?.nodeHealthSecret?.ref])],
        due: [],
      }),
      busy: (plugin) => changedAllTheTime(`the record of plugin ${plugin}`, { plugin }),
      memory: { saw },
    },
  );

  const noteOf = (plugin: string, change: "added" | "changed" | "removed"): string =>
    JSON.stringify({ plugin, at: clock.now(), change });

  return {
    async load() {
      const found = new Set<string>();
      for await (const page of table.pages(index))
        for (const plugin of page) {
          const { name } = plugin.record;
          found.add(name);
          if ((known.get(name)?.rev ?? 0) < plugin.rev) saw(name, plugin);
        }
      // What was removed while nobody looked; a record made meanwhile is read, not guessed at.
      for (const plugin of [...known.keys()])
        if (!found.has(plugin) && damages.of(refOf(plugin)) === undefined) await table.look(plugin);
    },
    get: (plugin) => known.get(plugin),
    list: () => [...known.values()],
    inPool: (pool) =>
      [...known].flatMap(([name, { record }]) => (record.profile?.attachPool === pool ? [name] : [])).sort(),
    async change(plugin, decide) {
      const result = await table.change(plugin, (before) => {
        const record = before?.record ?? newPluginRecord(plugin, clock.now());
        const next = decide(record, before?.rev ?? 0);
        if (before !== undefined && next === record) return undefined;
        return { record: next, note: noteOf(plugin, before === undefined ? "added" : "changed") };
      });
      return recordAfter(result);
    },
    async remove(plugin, guard, unless) {
      const { now } = await table.change(plugin, (before) =>
        before !== undefined && guard(before)
          ? { record: null, alone: unless, note: noteOf(plugin, "removed") }
          : undefined,
      );
      return now === undefined;
    },
    async learnOf(plugin) {
      await table.look(plugin);
    },
    // A profile that an earlier version stored lacks the fields that came since.
    of: (plugin) => {
      const said = known.get(plugin)?.record.profile;
      return said === undefined ? defaultProfile : { ...defaultProfile, ...said };
    },
    damage: (plugin) => (known.has(plugin) ? undefined : damages.of(refOf(plugin))?.message),
    remembered: (plugin, version) => rememberedOf(known.get(plugin)?.record, version),
    names: () => [...known].flatMap(([name, { record }]) => (lastSeenOf(record) === undefined ? [] : [name])),
    lastSeen: (plugin) => lastSeenOf(known.get(plugin)?.record),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
};
