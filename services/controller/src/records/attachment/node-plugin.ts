import type { NodePlugin } from "../../domain/node/node.ts";
import type { NodeView } from "../../ports.ts";

/** The plugin's node half there: a healthy one if there is any. */
export const nodePluginOf = (node: NodeView | undefined, plugin: string): NodePlugin | undefined => {
  let found: NodePlugin | undefined;
  for (const half of node?.record.plugins ?? []) {
    if (half.name !== plugin || half.role === "CONTROLLER") continue;
    if (half.health === "HEALTHY") return half;
    found ??= half;
  }
  return found;
};
