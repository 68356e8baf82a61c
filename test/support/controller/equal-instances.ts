import type { CallTarget } from "@holdfast/controller/domain/plugin/instance-reach";
import type { PluginInstance } from "@holdfast/controller/plugins/plugin-calls";
import type { PluginInstances } from "@holdfast/controller/plugins/plugin-instances";

/** Of a plugin whose instances reach everything, at most one of which can be called now. */
export const equalInstances = (
  current: (target: CallTarget) => PluginInstance | undefined,
): Pick<PluginInstances, "current" | "outOfReach" | "every" | "homeFor"> => ({
  current,
  outOfReach: () => undefined,
  every: (plugin) => ({ here: [current({ plugin })].filter((one) => one !== undefined), missing: [] }),
  homeFor: () => undefined,
});
