import type { Tri } from "@holdfast/model/tri";
import { expandPlanOf } from "../../domain/size/expand-plan.ts";
import type { ExpandPlan } from "../../domain/size/expansion.ts";
import type { ControllerPlugins, Nodes } from "../../ports.ts";

const expandCapability = "node:EXPAND_VOLUME";

/** Whether node halves grow volumes: one that does is enough, and one that has not told yet leaves it open. */
const expandsOnNodes = (nodes: Nodes, plugin: string): Tri => {
  let seen: Tri = "unknown";
  for (const { record } of nodes.list())
    for (const half of record.plugins) {
      if (half.name !== plugin || half.role === "CONTROLLER") continue;
      const says = half.capabilities[expandCapability] ?? "unknown";
      if (says === "yes") return "yes";
      if (says === "unknown") return "unknown";
      seen = says;
    }
  return seen;
};

/** How a plugin makes volumes bigger, as far as it is known. Nodes are looked at only for a plugin whose controller half cannot. */
export const expandPlanFor = (
  plugin: string,
  { plugins, nodes }: { readonly plugins: ControllerPlugins; readonly nodes: Nodes },
): ExpandPlan => {
  const facts = plugins.facts(plugin);
  return expandPlanOf({
    onController: facts.expandsVolumes,
    online: facts.expandsOnline,
    offline: facts.expandsOffline,
    assumed: facts.assumedExpansion,
    onNodes: facts.expandsVolumes === "no" ? expandsOnNodes(nodes, plugin) : "unknown",
  });
};
