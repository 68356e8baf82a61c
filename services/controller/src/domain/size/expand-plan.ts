import type { Tri } from "@holdfast/model/tri";
import type { PluginProfile } from "../plugin/plugin-profile.ts";
import type { ExpandPlan } from "./expansion.ts";

/** What a plugin announces of expansion, both halves of it. */
export interface ExpandFacts {
  readonly onController: Tri;
  /** CSI's VolumeExpansion: ONLINE, OFFLINE. */
  readonly online: Tri;
  readonly offline: Tri;
  readonly onNodes: Tri;
  /** What the plugin's profile says of one that announces neither. */
  readonly assumed: PluginProfile["assumedExpansion"];
}

const assumptions: Readonly<Record<PluginProfile["assumedExpansion"], ExpandPlan>> = {
  online: "any-time",
  offline: "assumed-unused",
  none: "cannot",
};

/**
 * ONLINE: at any time. OFFLINE alone: only while no node has the volume. A plugin that announces neither, as many do, is taken at the
 * word of its profile, and without one it is spared a volume in use. A plugin whose controller half cannot expand leaves it to its
 * nodes. What is not known yet waits.
 */
export const expandPlanOf = ({ onController, online, offline, onNodes, assumed }: ExpandFacts): ExpandPlan => {
  if (onController === "unknown") return "unknown";
  if (onController === "no") return onNodes === "yes" ? "by-nodes" : onNodes === "no" ? "cannot" : "unknown";
  if (online === "yes") return "any-time";
  if (online === "unknown" || offline === "unknown") return "unknown";
  return offline === "yes" ? "only-unused" : assumptions[assumed];
};
