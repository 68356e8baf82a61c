import type { GrantFacts } from "../domain/grant.ts";
import type { NodePlugin } from "../domain/node.ts";
import type { ControllerPlugins, Nodes, NodeView, StoreGate } from "../ports.ts";

export type GrantFactsOf = (plugin: string, node: string) => GrantFacts;

/** The plugin's node half there: a healthy one if there is any. */
export const nodePluginOf = (node: NodeView | undefined, plugin: string): NodePlugin | undefined => {
  const halves = node?.record.plugins.filter((p) => p.name === plugin && p.role !== "CONTROLLER") ?? [];
  return halves.find((p) => p.health === "HEALTHY") ?? halves[0];
};

/** A node that may be given work: registered, not fenced, and not known to be silent. Silence alone takes nothing away (I7). */
export const takesWork = (node: NodeView | undefined): node is NodeView =>
  node !== undefined && node.record.state === "READY" && node.live !== "suspect";

const closedBecause = ({ record: { name, drain } }: NodeView): string =>
  `node ${name} is drained${drain === undefined || drain.reason === "" ? "" : `: ${drain.reason}`}`;

/** What a grant has to know, as this controller knows it at this moment; judged by `obstacleTo`. */
export const createGrantFacts = ({
  nodes,
  plugins,
  gate,
}: {
  readonly nodes: Nodes;
  readonly plugins: ControllerPlugins;
  readonly gate: StoreGate;
}): GrantFactsOf => {
  return (plugin, name) => {
    const node = nodes.get(name);
    const half = nodePluginOf(node, plugin);
    const facts = plugins.facts(plugin);
    const vetted = gate.state();
    return {
      nodeReady: takesWork(node),
      ...(node?.record.drain === undefined ? {} : { nodeClosed: closedBecause(node) }),
      nodeEpoch: node?.record.nodeEpoch ?? 0,
      nodeId: half?.health === "HEALTHY" ? half.nodeId : "",
      topology: half?.topology ?? {},
      ...(node === undefined ? {} : { machineId: node.record.machineId }),
      ...(facts.ready ? {} : { pluginTrouble: facts.reason }),
      ...(facts.callsHeld === undefined ? {} : { callsHeld: facts.callsHeld }),
      pluginVersion: facts.version,
      attaches: facts.attaches,
      publishesReadOnly: facts.publishesReadOnly,
      storeVetted: vetted.open,
      storeGen: vetted.gen,
    };
  };
};
