import type { NodePlugin } from "../domain/node.ts";
import type { PluginProfile } from "../domain/plugin-profile.ts";
import { type AttachLimit, noLimit } from "../domain/slots.ts";
import type { Nodes } from "../ports.ts";
import { nodePluginOf } from "./node-plugin.ts";
import type { AttachLimitOf } from "./volume-commit.ts";

/** As NodeGetInfo and profiles have it, 0 says nothing. */
const bound = (said: number): number => (said === 0 ? Number.POSITIVE_INFINITY : said);

/** How many volumes of a plugin a node takes: by NodeGetInfo, its profile, and what it taught since. */
export const createAttachLimits = (deps: {
  readonly nodes: Pick<Nodes, "get">;
  readonly profileOf: (plugin: string) => Pick<PluginProfile, "maxVolumesPerNode">;
  readonly learned: (half: NodePlugin, node: string) => number | undefined;
}): AttachLimitOf => {
  const { nodes, profileOf, learned } = deps;
  return (plugin, node): AttachLimit => {
    const half = nodePluginOf(nodes.get(node), plugin);
    if (half === undefined) return noLimit;
    const limit = Math.min(bound(half.maxVolumes), bound(profileOf(plugin).maxVolumesPerNode));
    const taught = learned(half, node) ?? Number.POSITIVE_INFINITY;
    return taught < limit ? { limit: taught, learned: true } : { limit, learned: false };
  };
};
