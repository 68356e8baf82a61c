import { type AttachLimit, noLimit } from "../../domain/attachment/slots.ts";
import { maxVolumesOn, type PluginProfile } from "../../domain/plugin/plugin-profile.ts";
import type { Nodes } from "../../ports.ts";
import type { AttachLimitOf } from "../volume/volume-commit.ts";
import type { LearnedLimits } from "./learned-limits.ts";
import { nodePluginOf } from "./node-plugin.ts";

/** As NodeGetInfo and profiles have it, 0 says nothing. */
const bound = (said: number): number => (said === 0 ? Number.POSITIVE_INFINITY : said);

/** How many volumes of a plugin a node takes: by NodeGetInfo, its profile, and what it taught since. */
export const createAttachLimits = (deps: {
  readonly nodes: Pick<Nodes, "get">;
  readonly profileOf: (plugin: string) => Pick<PluginProfile, "maxVolumesPerNode" | "nodeClasses">;
  readonly learned: LearnedLimits["of"];
}): AttachLimitOf => {
  const { nodes, profileOf, learned } = deps;
  return (plugin, node): AttachLimit => {
    const view = nodes.get(node);
    const half = nodePluginOf(view, plugin);
    if (view === undefined || half === undefined) return noLimit;
    const limit = Math.min(bound(half.maxVolumes), bound(maxVolumesOn(profileOf(plugin), node, half.topology)));
    const taught = learned(half, view.record) ?? Number.POSITIVE_INFINITY;
    return taught < limit ? { limit: taught, learned: true } : { limit, learned: false };
  };
};
