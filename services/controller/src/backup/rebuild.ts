/**
 * Makes a backup out of what agents hold and backends list, for a store that is lost without one.
 *
 * R1 Nothing is written but the file: no store, no agent, no backend. R2 Every node that the person names has to answer; what a node that
 * was not named holds is not known, so that to name all of them is the person's word.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AgentGateway } from "../agent-ports.ts";
import type { ListedVolume } from "../domain/listing.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import { type Rebuilt, rebuildVolumes } from "../domain/repair/rebuild.ts";
import type { HeardNode, PluginTold } from "../domain/repair/rebuilt-volume.ts";
import type { BackendListings, ControllerPlugins, Nodes } from "../ports.ts";
import { readListing } from "../reconcile/two-way/two-way-listing.ts";

export interface RebuildDeps {
  readonly nodes: Pick<Nodes, "list" | "get">;
  readonly agents: Pick<AgentGateway, "inventory">;
  readonly plugins: Pick<ControllerPlugins, "facts">;
  readonly listings: Pick<BackendListings, "can" | "volumes">;
  /** Told the highest generation that was promised to any agent: relayed calls need it. */
  readonly promised: (gen: number) => void;
  readonly who: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
}

export interface RebuildPatience {
  /** For all nodes to have registered. */
  readonly nodesMs: number;
  /** For a node that is not named to register as well: its agent dials again after a pause of its own. */
  readonly strangersMs: number;
  /** For a plugin to be there. */
  readonly pluginMs: number;
}

const lookMs = 200;
const listing = { pageSize: 500, maxPages: 10_000, maxRestarts: 3 } as const;

/** Answers whether it became so in time. */
const within = async ({ clock, signal }: RebuildDeps, ms: number, so: () => boolean): Promise<boolean> => {
  const end = clock.monotonic() + ms;
  while (!so()) {
    if (clock.monotonic() >= end) return false;
    await clock.sleep(lookMs, signal);
  }
  return true;
};

const heardNodes = async (
  deps: RebuildDeps,
  wanted: readonly string[],
  { nodesMs, strangersMs }: RebuildPatience,
): Promise<readonly HeardNode[]> => {
  const { nodes, agents, signal, say } = deps;
  const here = (): readonly NodeRecord[] =>
    nodes.list().flatMap(({ record, linked }) => (linked === false ? [] : [record]));
  const missing = (): readonly string[] => wanted.filter((name) => !here().some((record) => record.name === name));
  if (!(await within(deps, nodesMs, () => missing().length === 0))) throw silent(missing());
  const strange = (): readonly string[] => here().flatMap(({ name }) => (wanted.includes(name) ? [] : [name]));
  if (await within(deps, strangersMs, () => strange().length > 0)) throw unnamed(strange());
  const heard: HeardNode[] = [];
  for (const record of here()) {
    const inventory = await agents.inventory(record, signal);
    say(
      `${record.name}: ${inventory.volumes.length} volumes, ${inventory.orphans.length} mounts that no journal explains`,
    );
    heard.push({ record, inventory });
  }
  return heard;
};

/** R2 */
const silent = (names: readonly string[]): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "REBUILD_INCOMPLETE",
    message: `no agent of ${names.join(", ")} has registered here: start it, or make sure that the machine is off and leave its name out. Nothing was written`,
    metadata: { nodes: names.join(",") },
  });

const unnamed = (names: readonly string[]): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "REBUILD_INCOMPLETE",
    message: `${names.join(", ")} registered here and is not named: name every node of the installation. Nothing was written`,
    metadata: { nodes: names.join(",") },
  });

const listedBy = async (
  { listings, signal }: RebuildDeps,
  plugin: string,
): Promise<ReadonlyMap<string, ListedVolume> | string> => {
  const { ready, reason, volumes } = listings.can(plugin);
  if (!ready) return reason === "" ? "it does not answer" : reason;
  if (volumes !== "yes") return "it cannot list its volumes";
  const found = new Map<string, ListedVolume>();
  const ask = (page: Parameters<BackendListings["volumes"]>[1]) => listings.volumes(plugin, page, signal);
  for await (const step of readListing({ ask, ...listing })) {
    if (step.kind === "page") for (const one of step.entries) found.set(one.externalId, one);
    if (step.kind === "anew") found.clear();
    if (step.kind === "broken") return step.failure.message;
  }
  return found;
};

const toldBy = async (deps: RebuildDeps, plugin: string, ms: number): Promise<PluginTold> => {
  const facts = () => deps.plugins.facts(plugin);
  await within(
    deps,
    ms,
    () => facts().attaches === "no" || (facts().attaches === "yes" && deps.listings.can(plugin).ready),
  );
  const { attaches, publishesReadOnly } = facts();
  return { attaches, publishesReadOnly, listed: await listedBy(deps, plugin) };
};

export const gatherRebuild = async (
  deps: RebuildDeps,
  wanted: readonly string[],
  patience: RebuildPatience,
): Promise<Rebuilt> => {
  const nodes = await heardNodes(deps, wanted, patience);
  deps.promised(Math.max(1, ...nodes.map(({ inventory }) => inventory.promisedGen ?? 0)));
  const names = new Set([
    ...nodes.flatMap(({ inventory }) => inventory.volumes.map(({ plugin }) => plugin)),
    ...nodes.flatMap(({ record }) => record.plugins.map(({ name }) => name)),
  ]);
  const told = new Map<string, PluginTold>();
  for (const name of names) told.set(name, await toldBy(deps, name, patience.pluginMs));
  const nothing: PluginTold = { attaches: "unknown", publishesReadOnly: "unknown", listed: "it does not answer" };
  const { who, clock } = deps;
  return rebuildVolumes({ nodes, plugin: (name) => told.get(name) ?? nothing, who, now: clock.now() });
};
