import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { checkId, checkPlugin } from "../../domain/limits.ts";
import { lastSeenOf, withoutMissed } from "../../domain/plugin/missed-instances.ts";
import type { PoolMate } from "../../domain/plugin/plugin-findings.ts";
import { checkProfile, type PluginProfile, sameProfile, settledProfile } from "../../domain/plugin/plugin-profile.ts";
import { type MissedInstance, withProfile } from "../../domain/plugin/plugin-record.ts";
import { type PluginSighting, type PluginSummary, summaryOf, versionsOf } from "../../domain/plugin/plugin-sighting.ts";
import { formatWithPools } from "../../domain/store-format.ts";
import type { IndexEntry } from "../../domain/store-types.ts";
import type { PluginCatalogue } from "../../ports.ts";
import type { PluginRecords } from "../../records/plugin-records.ts";
import type { Caller } from "../model.ts";

export interface SetPluginProfileInput {
  readonly name: string;
  /** Zeros stand for the defaults. */
  readonly profile: PluginProfile;
  /** 0 = whatever revision the record has. */
  readonly expectedRevision: number;
}

/** A plugin as it is seen and as it is kept. */
export interface PluginView {
  readonly name: string;
  readonly sightings: readonly PluginSighting[];
  readonly summary: PluginSummary;
  readonly profile: PluginProfile;
  readonly rev: number;
  readonly emptySince: number | undefined;
  readonly missed: Readonly<Record<string, MissedInstance>>;
  readonly poolMates: readonly PoolMate[];
}

/** All reject with HoldfastError and the reasons of docs/errors.md. */
export interface PluginCommands {
  setProfile(input: SetPluginProfileInput, caller: Caller): Promise<void>;
  /** What is gone is no error. */
  /** False: no such plugin is on record. */
  deletePlugin(name: string): Promise<boolean>;
  /** Its instance on that node is missed no more. False: nothing was missed there. */
  forgetInstance(name: string, node: string): Promise<boolean>;
  /** undefined: it was never seen, and nobody said anything of it. From memory. */
  view(name: string): PluginView | undefined;
  /** In order; with a node only those that have an instance there. From memory. */
  names(node: string): readonly string[];
  volumeCount(name: string): Promise<number>;
}

export interface PluginCommandDeps {
  readonly records: Pick<PluginRecords, "change" | "remove" | "get" | "list" | "of" | "inPool" | "remembered">;
  readonly catalogue: PluginCatalogue;
  readonly count: (entry: IndexEntry) => Promise<number>;
  /** Of the store. */
  readonly format: () => number;
  /** Why no instance of it is called although some could be; empty for nothing. */
  readonly ambiguous: (plugin: string) => string;
}

/** All its volumes carry this. */
const volumesOf = (plugin: string): IndexEntry => ({ index: "volume-plugin", value: plugin });

export const validateProfile = ({ name, profile, expectedRevision }: SetPluginProfileInput): void => {
  const violations = [...checkPlugin("name", name), ...checkProfile(profile)];
  if (!Number.isSafeInteger(expectedRevision) || expectedRevision < 0)
    violations.push({ field: "expected_revision", description: "has to be 0 or a revision that was read" });
  if (violations.length > 0) throw invalidArgument(violations);
};

const setProfile =
  ({ records, format }: PluginCommandDeps): PluginCommands["setProfile"] =>
  async (input, { who, why }) => {
    validateProfile(input);
    if (input.profile.attachPool !== "" && format() < formatWithPools) throw poolNeedsUpgrade(input, format());
    const profile = settledProfile(input.profile);
    await records.change(input.name, (record, rev) => {
      const next = withProfile(record, profile);
      // The same again, also when its first answer was lost: nothing to compare.
      const same = record.profile === undefined ? next.profile === undefined : sameProfile(record.profile, profile);
      if (same && rev > 0) return record;
      if (input.expectedRevision !== 0 && input.expectedRevision !== rev)
        throw otherRevision(input.name, input.expectedRevision, rev);
      return { ...next, changedBy: { who, why } };
    });
  };

/** No instance and no volume: the second is compared by the commit itself, against whoever makes one meanwhile. */
const deletePlugin =
  ({ records, catalogue, count }: PluginCommandDeps): PluginCommands["deletePlugin"] =>
  async (name) => {
    const violations = checkPlugin("name", name);
    if (violations.length > 0) throw invalidArgument(violations);
    const instances = catalogue.of(name);
    if (instances.length > 0) throw stillRuns(name, instances);
    let known = false;
    const guard = (): boolean => {
      known = true;
      return catalogue.of(name).length === 0;
    };
    if (await records.remove(name, guard, volumesOf(name))) return known;
    const again = catalogue.of(name);
    throw again.length > 0 ? stillRuns(name, again) : hasVolumes(name, await count(volumesOf(name)));
  };

/** What operators say of plugins, and what is known of them. */
export const createPluginCommands = (deps: PluginCommandDeps): PluginCommands => {
  const { records, catalogue } = deps;
  const matesOf = (name: string, pool: string): readonly PoolMate[] =>
    (pool === "" ? [] : records.inPool(pool)).flatMap((plugin) =>
      plugin === name ? [] : [{ plugin, limit: records.of(plugin).attachPoolLimit }],
    );
  return {
    setProfile: setProfile(deps),
    deletePlugin: deletePlugin(deps),
    async forgetInstance(name, node) {
      const violations = [...checkPlugin("name", name), ...checkId("node", node)];
      if (violations.length > 0) throw invalidArgument(violations);
      const there = catalogue.at(name, node);
      if (there.length > 0) throw stillRuns(name, there);
      let missed = false;
      const forget: Parameters<typeof records.change>[1] = (record) => {
        const next = withoutMissed(record, node);
        missed = next !== record;
        return next;
      };
      if (records.get(name) !== undefined) await records.change(name, forget);
      return missed;
    },
    view(name) {
      const sightings = catalogue.of(name);
      const known = records.get(name);
      if (known === undefined && sightings.length === 0) return undefined;
      const versions = versionsOf(sightings);
      // Of several versions at once each has its own capabilities, and none speaks for all.
      const remembered = versions.length > 1 ? {} : records.remembered(name, versions[0] ?? "");
      const here = new Set(sightings.flatMap(({ node, plugin }) => (plugin.role === "CONTROLLER" ? [] : [node])));
      const missed = Object.fromEntries(Object.entries(known?.record.missed ?? {}).filter(([node]) => !here.has(node)));
      const summary = summaryOf(name, sightings, remembered, { missed, lastSeen: lastSeenOf(known?.record) });
      return {
        name,
        sightings,
        summary: { ...summary, missing: summary.missing || deps.ambiguous(name) },
        profile: records.of(name),
        rev: known?.rev ?? 0,
        emptySince: known?.record.emptySince,
        missed,
        poolMates: matesOf(name, records.of(name).attachPool),
      };
    },
    names: (node) =>
      node === ""
        ? [...new Set([...catalogue.names(), ...records.list().map(({ record }) => record.name)])].sort()
        : catalogue.on(node).toSorted(),
    volumeCount: (name) => deps.count(volumesOf(name)),
  };
};

const stillRuns = (plugin: string, instances: readonly PluginSighting[]): HoldfastError => {
  const [first] = instances;
  const where = first === undefined || first.node === "" ? "beside a controller" : `on node ${first.node}`;
  return new HoldfastError({
    kind: "precondition",
    reason: "PLUGIN_IN_USE",
    message: `plugin ${plugin} still has ${instances.length} instances, the first ${where}; stop them first`,
    metadata: { plugin, allocation: first?.plugin.instance ?? "", volume: "", count: String(instances.length) },
  });
};

const hasVolumes = (plugin: string, volumes: number): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "PLUGIN_IN_USE",
    message: `plugin ${plugin} still has ${volumes} volumes; delete or deregister them first`,
    metadata: { plugin, allocation: "", volume: "", count: String(volumes) },
  });

const poolNeedsUpgrade = ({ name, profile }: SetPluginProfileInput, format: number): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "UPGRADE_UNFINISHED",
    message: `the profile of plugin ${name} cannot name pool ${profile.attachPool}: the store has format ${format}, so that a controller of an earlier release may grant from it, which compares no pool; end the upgrade first: holdfast upgrade finish`,
    metadata: { plugin: name, format: String(format), needed: String(formatWithPools) },
  });

const otherRevision = (plugin: string, wanted: number, found: number): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "REVISION_CONFLICT",
    message: `the record of plugin ${plugin} has revision ${found}, not ${wanted}: somebody changed it; read it and decide again`,
    metadata: { plugin, revision: String(found) },
  });
