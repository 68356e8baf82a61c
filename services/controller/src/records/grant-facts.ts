import { slotKey } from "../domain/attachment/slots.ts";
import type { GrantFacts } from "../domain/claim/grant.ts";
import type { ControllerPlugins, Nodes, NodeView, StoreGate } from "../ports.ts";
import { nodePluginOf } from "./attachment/node-plugin.ts";
import type { VolumeRecords } from "./volume/volume-records.ts";

export type GrantFactsOf = (plugin: string, node: string) => GrantFacts;

/** A node that may be given work: registered, not fenced, and not known to be silent. Silence alone takes nothing away (I7). */
export const takesWork = (node: NodeView | undefined): node is NodeView =>
  node !== undefined && node.record.state === "READY" && node.live !== "suspect";

/** Its agent is silent for all controllers; one that does not accept work speaks. */
export const isSilent = ({ live, linked }: NodeView): boolean => live === "suspect" && linked !== true;

const closedBecause = ({ record: { name, drain } }: NodeView): string =>
  `node ${name} is drained${drain === undefined || drain.reason === "" ? "" : `: ${drain.reason}`}`;

/** What a grant has to know, as this controller knows it at this moment; judged by `obstacleTo`. */
export const createGrantFacts = ({
  nodes,
  plugins,
  gate,
  records,
}: {
  readonly nodes: Nodes;
  readonly plugins: ControllerPlugins;
  readonly gate: StoreGate;
  readonly records: Pick<VolumeRecords, "slots" | "attachLimit">;
}): GrantFactsOf => {
  return (plugin, name) => {
    const node = nodes.get(name);
    const half = nodePluginOf(node, plugin);
    const facts = plugins.facts(plugin);
    const { open, vetting, reason } = gate.state(plugin);
    const limit = records.attachLimit(plugin, name);
    const slots = records.slots.state(slotKey(plugin, name), limit);
    const pool = records.slots.pool(name, limit.pool);
    return {
      nodeReady: takesWork(node),
      ...(node?.record.drain === undefined ? {} : { nodeClosed: closedBecause(node) }),
      nodeEpoch: node?.record.nodeEpoch ?? 0,
      nodeId: half?.health === "HEALTHY" ? half.nodeId : "",
      topology: half?.topology ?? {},
      ...(node === undefined ? {} : { machineId: node.record.machineId }),
      ...(node?.record.machinesBefore === undefined ? {} : { machinesBefore: node.record.machinesBefore }),
      ...(facts.ready ? {} : { pluginTrouble: facts.reason }),
      ...(facts.callsHeld === undefined ? {} : { callsHeld: facts.callsHeld }),
      pluginVersion: facts.version,
      attaches: facts.attaches,
      publishesReadOnly: facts.publishesReadOnly,
      ...(slots === undefined ? {} : { slots }),
      ...(pool === undefined ? {} : { pool }),
      ...(open ? {} : { unvetted: reason }),
      storeGen: vetting.gen,
    };
  };
};
