/**
 * The durable part of the plugin catalogue. There are few plugins, and every call to one asks for its profile: all of them are kept in
 * memory, and the store is read when somebody else wrote.
 *
 * P1 A record is stored before anybody here sees it. P2 A decision is stored only over the revision it was made from.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { defaultProfile } from "../domain/plugin-profile.ts";
import { newPluginRecord, type PluginRecord, rememberedOf } from "../domain/plugin-record.ts";
import type { AggregateRef, IndexEntry, StoredRecord } from "../domain/store-types.ts";
import type { Ids, PluginProfiles, Store } from "../ports.ts";
import { createDamagedRecords, type DamagedRecords } from "./damaged-records.ts";
import { recordReader } from "./record-reader.ts";
import { pluginShape } from "./record-shapes.ts";

export interface VersionedPlugin {
  readonly record: PluginRecord;
  readonly rev: number;
}

export interface PluginRecords extends PluginProfiles {
  /** Reads every record: before anything is called, and whenever changes may have been missed. */
  load(): Promise<void>;
  get(plugin: string): VersionedPlugin | undefined;
  list(): readonly VersionedPlugin[];
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

export interface PluginRecordsDeps {
  readonly store: Pick<Store, "get" | "list" | "commit">;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly signal: AbortSignal;
  readonly damages?: DamagedRecords;
}

const index: IndexEntry = { index: "plugin-all", value: "all" };
const pageSize = 500;
const rounds = 12;

const refOf = (plugin: string): AggregateRef => ({ kind: "plugin", key: plugin });

export const readPlugin = recordReader<PluginRecord>({ shape: pluginShape, keyOf: ({ name }) => name });

const versioned = (stored: StoredRecord): VersionedPlugin => ({ record: readPlugin(stored), rev: stored.rev });

export const createPluginRecords = (deps: PluginRecordsDeps): PluginRecords => {
  const { store, clock, ids, signal, damages = createDamagedRecords() } = deps;
  const known = new Map<string, VersionedPlugin>();
  const listeners = new Set<(plugin: string) => void>();
  const lanes = createKeyedLanes();

  const tell = (plugin: string): void => {
    for (const listener of [...listeners]) listener(plugin);
  };

  const read = async (plugin: string): Promise<VersionedPlugin | undefined> => {
    const stored = await store.get(refOf(plugin));
    return stored === undefined ? undefined : damages.read(stored, versioned);
  };

  /** What stands in the store now, told to everybody if it is not what was known. */
  const refresh = async (plugin: string): Promise<VersionedPlugin | undefined> => {
    const found = await read(plugin);
    const before = known.get(plugin);
    if (found === undefined) known.delete(plugin);
    else known.set(plugin, found);
    if (before?.rev !== found?.rev) tell(plugin);
    return found;
  };

  /** undefined: somebody else was faster, or nobody knows. */
  const write = async (
    plugin: string,
    record: PluginRecord | null,
    expectedRev: number,
    alone?: IndexEntry,
  ): Promise<number | "crowded" | undefined> => {
    const ref = refOf(plugin);
    const note = {
      plugin,
      at: clock.now(),
      change: record === null ? "removed" : expectedRev === 0 ? "added" : "changed",
    };
    const body = record === null ? null : JSON.stringify(record);
    try {
      const result = await store.commit({
        opId: ids.uuid(),
        writes: [{ ref, expectedRev, body, indexes: [index], due: [] }],
        events: [{ type: "plugin", ref, body: JSON.stringify(note) }],
        requiresVetted: false,
        ...(alone === undefined ? {} : { alone }),
      });
      if (result.ok) return result.revs[0] ?? expectedRev + 1;
      return result.crowded === true ? "crowded" : undefined;
    } catch (error) {
      if (isHoldfastError(error) && error.reason === "STORE_OUTCOME_UNKNOWN") return undefined;
      throw error;
    }
  };

  const pause = (round: number): Promise<void> =>
    clock.sleep(Math.ceil(ids.random() * 2 ** Math.min(round, 7)), signal);

  const busy = (plugin: string): HoldfastError =>
    new HoldfastError({
      kind: "aborted",
      reason: "REVISION_CONFLICT",
      message: `the record of plugin ${plugin} is being changed by others all the time; repeat the request`,
      metadata: { plugin },
    });

  const change: PluginRecords["change"] = async (plugin, decide) => {
    for (let round = 0; round < rounds; round += 1) {
      if (round > 0) await pause(round);
      const before = await refresh(plugin);
      const record = before?.record ?? newPluginRecord(plugin, clock.now());
      const next = decide(record, before?.rev ?? 0);
      if (before !== undefined && next === before.record) return before;
      const rev = await write(plugin, next, before?.rev ?? 0);
      if (typeof rev !== "number") continue;
      const stored = { record: next, rev };
      known.set(plugin, stored); // P1
      tell(plugin);
      return stored;
    }
    throw busy(plugin);
  };

  const remove: PluginRecords["remove"] = async (plugin, guard, unless) => {
    for (let round = 0; round < rounds; round += 1) {
      if (round > 0) await pause(round);
      const before = await refresh(plugin);
      if (before === undefined) return true;
      if (!guard(before)) return false;
      const rev = await write(plugin, null, before.rev, unless); // P2
      if (rev === undefined) continue;
      if (rev === "crowded") return false;
      known.delete(plugin);
      tell(plugin);
      return true;
    }
    throw busy(plugin);
  };

  return {
    async load() {
      const found = new Set<string>();
      let after: string | undefined;
      do {
        const page = await store.list({ ...index, limit: pageSize, ...(after === undefined ? {} : { after }) });
        for (const { ref } of page.records) found.add(ref.key);
        for (const plugin of damages.readEach(page.records, versioned)) {
          const { name } = plugin.record;
          if ((known.get(name)?.rev ?? 0) >= plugin.rev) continue;
          known.set(name, plugin);
          tell(name);
        }
        after = page.next;
      } while (after !== undefined);
      // What was removed while nobody looked; a record made meanwhile is read, not guessed at.
      for (const plugin of [...known.keys()].filter((name) => !found.has(name)))
        await lanes.run(plugin, signal, () => refresh(plugin));
    },
    get: (plugin) => known.get(plugin),
    list: () => [...known.values()],
    change: (plugin, decide) => lanes.run(plugin, signal, () => change(plugin, decide)),
    remove: (plugin, guard, unless) => lanes.run(plugin, signal, () => remove(plugin, guard, unless)),
    learnOf: (plugin) =>
      lanes.run(plugin, signal, async () => {
        await refresh(plugin);
      }),
    // A profile that an earlier version stored lacks the fields that came since.
    of: (plugin) => {
      const said = known.get(plugin)?.record.profile;
      return said === undefined ? defaultProfile : { ...defaultProfile, ...said };
    },
    damage: (plugin) => (known.has(plugin) ? undefined : damages.of(refOf(plugin))?.message),
    remembered: (plugin, version) => rememberedOf(known.get(plugin)?.record, version),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
};
