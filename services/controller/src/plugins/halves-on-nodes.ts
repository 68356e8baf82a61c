/**
 * What nodes tell of the controller halves of plugins, by plugin: kept up to date node by node, so that nobody has to go through
 * all nodes to answer a question about one plugin.
 */
import { allCaps, controllerCaps, groupCaps, nodeCaps, type PluginFacts, pluginCaps } from "@holdfast/csi/capabilities";
import type { Tri } from "@holdfast/model/tri";
import { createEmitter } from "@holdfast/shared/async/emitter";
import type { NodePlugin, NodeRecord } from "../domain/node/node.ts";
import type { InstancePlace } from "../domain/plugin/instance-reach.ts";
import type { Nodes, NodeView } from "../ports.ts";

/** The controller half of a plugin on one node; of several instances there its agent picks the newest. */
export interface HalfOnNode {
  readonly node: NodeRecord;
  readonly facts: PluginFacts;
  readonly usable: boolean;
  /** Why it is not, for people. */
  readonly why: string;
}

export interface HalvesOnNodes {
  /** All that are there, ordered by the names of the nodes. */
  of(plugin: string): readonly HalfOnNode[];
  at(plugin: string, node: string): HalfOnNode | undefined;
  /** Where instances of any half run, or ran since this controller started; the node of each is still registered. */
  places(plugin: string): readonly InstancePlace[];
  /** Of the same, the one on that node. */
  placeAt(plugin: string, node: string): InstancePlace | undefined;
  /** How many of the same have a controller service and a node service in one instance. */
  monoliths(plugin: string): number;
  /**
   * What the node halves announce of the plugin's controller half. "no" only when every one that told says so: then there is no
   * ControllerPublish to wait for.
   */
  announced(plugin: string): Tri;
  /** Every plugin that any node has. */
  names(): readonly string[];
  /** A half came, went or changed, or another answer to `announced`. */
  onChange(listener: (plugin: string) => void): () => void;
}

/** What a node's instances say of the controller service; "silent" when none of them has told anything. */
type Said = Tri | "silent";

interface Known {
  readonly halves: Map<string, HalfOnNode>;
  /** The same, in order: a plugin may have one on each of ten thousand nodes, and is asked for at every call. */
  readonly ordered: HalfOnNode[];
  /** Nodes by what they say of the controller service. */
  readonly said: Record<Said, number>;
}

const standings = <C extends string>(
  names: readonly C[],
  family: string,
  said: NodePlugin["capabilities"],
): Record<C, Tri> =>
  Object.fromEntries(names.map((name) => [name, said[`${family}:${name}`] ?? "unknown"])) as Record<C, Tri>;

const factsOf = ({ name, version, capabilities }: NodePlugin): PluginFacts => ({
  name,
  version,
  manifest: {},
  role: "controller",
  plugin: standings(pluginCaps, "plugin", capabilities),
  controller: standings(controllerCaps, "controller", capabilities),
  node: allCaps(nodeCaps, "no"),
  group: standings(groupCaps, "group", capabilities),
});

/** A host that is cut off, or shall be, gets no secret any more. */
const troubleOf = ({ record, live }: NodeView, { health, healthMessage }: NodePlugin): string => {
  if (record.state !== "READY") return `node ${record.name} is ${record.state}`;
  if (live === "suspect") return `the agent of node ${record.name} is silent`;
  if (health === "HEALTHY") return "";
  return `on node ${record.name} it is ${health}${healthMessage === "" ? "" : `: ${healthMessage}`}`;
};

/** The half that its agent would call: a healthy one before the others. */
const halfOf = (view: NodeView, plugins: readonly NodePlugin[]): HalfOnNode | undefined => {
  const halves = plugins.filter(({ role }) => role !== "NODE");
  const half = halves.find(({ health }) => health === "HEALTHY") ?? halves[0];
  if (half === undefined) return undefined;
  const why = troubleOf(view, half);
  return { node: view.record, facts: factsOf(half), usable: why === "", why };
};

/** What a plugin in two processes tells of its node is told by its node half. */
const placeOf = (node: string, plugins: readonly NodePlugin[]): InstancePlace => {
  const told = plugins.find(({ role, nodeId }) => role !== "CONTROLLER" && nodeId !== "");
  const monolith = plugins.some(({ role }) => role === "MONOLITH");
  return { node, nodeId: told?.nodeId ?? "", monolith, segments: told?.topology ?? {} };
};

const saidBy = (plugins: readonly NodePlugin[]): Said => {
  const all = plugins.flatMap(({ capabilities }) => capabilities["plugin:CONTROLLER_SERVICE"] ?? []);
  if (all.includes("yes")) return "yes";
  if (all.includes("unknown")) return "unknown";
  return all.includes("no") ? "no" : "silent";
};

const nobody = ({ said }: Known): boolean => said.yes + said.no + said.unknown + said.silent === 0;

const sameHalf = (a: HalfOnNode | undefined, b: HalfOnNode | undefined): boolean =>
  a === b ||
  (a !== undefined &&
    b !== undefined &&
    // Calls name the life of the agent.
    a.node.instance === b.node.instance &&
    a.usable === b.usable &&
    a.why === b.why &&
    JSON.stringify(a.facts) === JSON.stringify(b.facts));

/** Where the node stands in the order, or would. */
const rankOf = (ordered: readonly HalfOnNode[], name: string): number => {
  let [from, to] = [0, ordered.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((ordered[middle]?.node.name ?? "") < name) from = middle + 1;
    else to = middle;
  }
  return from;
};

const put = ({ halves, ordered }: Known, name: string, half: HalfOnNode | undefined): void => {
  const replaced = halves.has(name) ? 1 : 0;
  ordered.splice(rankOf(ordered, name), replaced, ...(half === undefined ? [] : [half]));
  if (half === undefined) halves.delete(name);
  else halves.set(name, half);
};

export const createHalvesOnNodes = (nodes: Pick<Nodes, "get" | "list" | "onChange">): HalvesOnNodes => {
  const plugins = new Map<string, Known>();
  /** What each node was counted with. */
  const counted = new Map<string, ReadonlyMap<string, Said>>();
  const listeners = createEmitter<[plugin: string]>();
  /** A place outlives its instance: storage there is waited for. */
  const places = new Map<string, Map<string, InstancePlace>>();
  const monoliths = new Map<string, number>();
  const countMonolith = (plugin: string, place: InstancePlace | undefined, by: 1 | -1): void => {
    if (place?.monolith === true) monoliths.set(plugin, (monoliths.get(plugin) ?? 0) + by);
  };
  /** True = another place than before. */
  const putPlace = (plugin: string, node: string, found: readonly NodePlugin[] | undefined): boolean => {
    const known = places.get(plugin) ?? new Map<string, InstancePlace>();
    const before = known.get(node);
    const told = found === undefined ? undefined : placeOf(node, found);
    // An instance that starts has not told its place yet: the place of the one before it holds.
    const now = told === undefined || (told.nodeId === "" && before !== undefined) ? before : told;
    if (now === undefined || JSON.stringify(before) === JSON.stringify(now)) return false;
    places.set(plugin, known.set(node, now));
    countMonolith(plugin, before, -1);
    countMonolith(plugin, now, 1);
    // A place without a name changes the choice only where a monolith runs.
    return [before, now].some((place) => place?.monolith === true || Object.keys(place?.segments ?? {}).length > 0);
  };
  const forgetNode = (node: string): readonly string[] =>
    [...places].flatMap(([plugin, known]) => {
      countMonolith(plugin, known.get(node), -1);
      return known.delete(node) ? [plugin] : [];
    });

  const announced = (plugin: string): Tri => {
    const said = plugins.get(plugin)?.said;
    if (said === undefined) return "unknown";
    if (said.yes > 0) return "yes";
    return said.no > 0 && said.unknown === 0 ? "no" : "unknown";
  };

  const knownOf = (plugin: string): Known => {
    const known = plugins.get(plugin) ?? {
      halves: new Map(),
      ordered: [],
      said: { yes: 0, no: 0, unknown: 0, silent: 0 },
    };
    plugins.set(plugin, known);
    return known;
  };

  const count = ({ said }: Known, word: Said | undefined, by: 1 | -1): void => {
    if (word !== undefined) said[word] += by;
  };

  const look = (name: string): void => {
    const view = nodes.get(name);
    const now = Map.groupBy(view?.record.plugins ?? [], (plugin) => plugin.name);
    const before = counted.get(name) ?? new Map<string, Said>();
    const after = new Map<string, Said>();
    const changed: string[] = [];
    for (const plugin of new Set([...before.keys(), ...now.keys()])) {
      const found = now.get(plugin);
      const known = knownOf(plugin);
      const said = announced(plugin);
      count(known, before.get(plugin), -1);
      if (found !== undefined) {
        after.set(plugin, saidBy(found));
        count(known, after.get(plugin), 1);
      }
      const half = view === undefined || found === undefined ? undefined : halfOf(view, found);
      const same = sameHalf(known.halves.get(name), half);
      if (!same) put(known, name, half);
      const placed = putPlace(plugin, name, found);
      if (!same || placed || announced(plugin) !== said) changed.push(plugin);
      if (nobody(known)) plugins.delete(plugin);
    }
    if (view === undefined) changed.push(...forgetNode(name));
    if (after.size === 0) counted.delete(name);
    else counted.set(name, after);
    for (const plugin of new Set(changed)) listeners.tell(plugin);
  };

  for (const { record } of nodes.list()) look(record.name);
  nodes.onChange(look);

  return {
    of: (plugin) => plugins.get(plugin)?.ordered ?? [],
    at: (plugin, node) => plugins.get(plugin)?.halves.get(node),
    places: (plugin) => [...(places.get(plugin)?.values() ?? [])],
    placeAt: (plugin, node) => places.get(plugin)?.get(node),
    monoliths: (plugin) => monoliths.get(plugin) ?? 0,
    announced,
    names: () => [...plugins.keys()],
    onChange: listeners.on,
  };
};
