import type { AttachPool } from "../../domain/attachment/attach-pool.ts";
import { noLimit } from "../../domain/attachment/slots.ts";
import { type AttachProfile, maxVolumesOn, poolLimitOn } from "../../domain/plugin/attach-profile.ts";
import type { Nodes } from "../../ports.ts";
import type { AttachLimitOf } from "../volume/volume-commit.ts";
import type { LearnedLimits } from "./learned-limits.ts";
import { nodePluginOf } from "./node-plugin.ts";

/** As NodeGetInfo and profiles have it, 0 says nothing. */
const bound = (said: number): number => (said === 0 ? Number.POSITIVE_INFINITY : said);

export interface AttachLimitsDeps {
  readonly nodes: Pick<Nodes, "get">;
  readonly profileOf: (plugin: string) => AttachProfile;
  /** The plugins whose profiles name the pool, in order. */
  readonly pluginsOf: (pool: string) => readonly string[];
  readonly learned: LearnedLimits["of"];
}

/** How many volumes of a plugin a node takes: by NodeGetInfo, its profile, its pool, and what it taught since. */
export const createAttachLimits = ({ nodes, profileOf, pluginsOf, learned }: AttachLimitsDeps): AttachLimitOf => {
  /** The smallest limit that any of them says: a profile can be changed after the other, and no moment between has more than both say. */
  const poolOf = (plugin: string, node: string): { readonly pool?: AttachPool } => {
    const { attachPool: name } = profileOf(plugin);
    if (name === "") return {};
    const view = nodes.get(node);
    const plugins = pluginsOf(name);
    const said = plugins.map((each) => ({
      saidBy: each,
      limit: poolLimitOn(profileOf(each), node, nodePluginOf(view, each)?.topology ?? {}),
    }));
    const least = said.reduce((a, b) => (b.limit < a.limit ? b : a), {
      saidBy: plugin,
      limit: Number.POSITIVE_INFINITY,
    });
    return { pool: { name, ...least, plugins } };
  };

  return (plugin, node) => {
    const pool = poolOf(plugin, node);
    const view = nodes.get(node);
    const half = nodePluginOf(view, plugin);
    if (view === undefined || half === undefined) return { ...noLimit, ...pool };
    const limit = Math.min(bound(half.maxVolumes), bound(maxVolumesOn(profileOf(plugin), node, half.topology)));
    const taught = learned(half, view.record) ?? Number.POSITIVE_INFINITY;
    return taught < limit ? { limit: taught, learned: true, ...pool } : { limit, learned: false, ...pool };
  };
};
