/**
 * Every instance of every plugin that this controller sees, by plugin: on nodes, from their records, and beside the controller. Kept up
 * to date node by node, so that neither a change of a node nor a question about a plugin goes through all of them.
 *
 * G1 A node's change touches the plugins of that node and no others. G2 Nothing is counted ahead: counts are asked of the instances.
 */
import { createEmitter } from "@holdfast/shared/async/emitter";
import type { NodePlugin } from "../domain/node/node.ts";
import type { PluginSighting } from "../domain/plugin/plugin-sighting.ts";
import type { Nodes, PluginCatalogue } from "../ports.ts";

export interface PluginCatalogueDeps {
  readonly nodes: Pick<Nodes, "get" | "list" | "onChange">;
  readonly controllerId: string;
  readonly beside: () => readonly { readonly socket: string; readonly plugin: NodePlugin }[];
  readonly onChangeBeside: (listener: () => void) => void;
}

type Instances = readonly NodePlugin[];

const none: Instances = [];

export const createPluginCatalogue = (deps: PluginCatalogueDeps): PluginCatalogue => {
  const { nodes, controllerId, beside, onChangeBeside } = deps;
  const byPlugin = new Map<string, Map<string, Instances>>();
  const seen = new Map<string, { readonly plugins: Instances; readonly silent: boolean }>();
  const listeners = createEmitter<[plugin: string, node: string]>();
  /** Asked on every call of a plugin that is away: found once per change. */
  const versions = new Map<string, readonly string[]>();

  const tell = (plugin: string, node: string): void => {
    versions.delete(plugin);
    listeners.tell(plugin, node);
  };

  const place = (plugin: string, node: string, instances: Instances): void => {
    const there = byPlugin.get(plugin) ?? new Map<string, Instances>();
    if (instances.length === 0) there.delete(node);
    else there.set(node, instances);
    if (there.size === 0) byPlugin.delete(plugin);
    else byPlugin.set(plugin, there);
  };

  /** G1 */
  const look = (name: string): void => {
    const view = nodes.get(name);
    const before = seen.get(name) ?? { plugins: none, silent: false };
    const now = { plugins: view?.record.plugins ?? none, silent: view?.live === "suspect" };
    if (view === undefined) seen.delete(name);
    else seen.set(name, now);
    if (now.plugins === before.plugins && now.silent === before.silent) return;
    const was = Map.groupBy(before.plugins, (plugin) => plugin.name);
    const is = Map.groupBy(now.plugins, (plugin) => plugin.name);
    for (const plugin of new Set([...was.keys(), ...is.keys()])) {
      const instances = is.get(plugin) ?? none;
      const same = JSON.stringify(instances) === JSON.stringify(was.get(plugin) ?? none);
      if (!same) place(plugin, name, instances);
      if (!same || now.silent !== before.silent) tell(plugin, name);
    }
  };

  for (const { record } of nodes.list()) look(record.name);
  nodes.onChange(look);
  let there: ReadonlySet<string> = new Set(beside().map(({ plugin }) => plugin.name));
  onChangeBeside(() => {
    const before = there;
    there = new Set(beside().map(({ plugin }) => plugin.name));
    for (const plugin of new Set([...before, ...there])) tell(plugin, "");
  });

  const besideOf = (plugin: string): readonly PluginSighting[] =>
    beside()
      .filter((one) => one.plugin.name === plugin)
      .map((one) => ({ node: "", controllerId, socket: one.socket, plugin: one.plugin, silent: false }));

  const onNode = (node: string, instances: Instances): readonly PluginSighting[] =>
    instances.map((one) => ({
      node,
      controllerId: "",
      socket: "",
      plugin: one,
      silent: seen.get(node)?.silent ?? true,
    }));

  return {
    of(plugin) {
      const there = [...(byPlugin.get(plugin) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
      return [...besideOf(plugin), ...there.flatMap(([node, instances]) => onNode(node, instances))];
    },
    at: (plugin, node) => (node === "" ? besideOf(plugin) : onNode(node, byPlugin.get(plugin)?.get(node) ?? none)),
    versions(plugin) {
      const known = versions.get(plugin);
      if (known !== undefined) return known;
      const everywhere = [...(byPlugin.get(plugin)?.values() ?? [])].flat();
      const beside = besideOf(plugin).map((one) => one.plugin);
      const found = [...new Set([...beside, ...everywhere].map((one) => one.version))];
      versions.set(plugin, found.sort());
      return found;
    },
    names: () => [...new Set([...beside().map(({ plugin }) => plugin.name), ...byPlugin.keys()])].sort(),
    on: (node) => [...new Set((seen.get(node)?.plugins ?? none).map(({ name }) => name))],
    onChange: listeners.on,
  };
};
