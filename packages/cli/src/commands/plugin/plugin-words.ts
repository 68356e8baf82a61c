import { PluginHealth, PluginRole, Support } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { enumWords } from "../../words/enum-words.ts";

export const pluginHealths = enumWords<PluginHealth>(PluginHealth, "PLUGIN_HEALTH_");
export const pluginRoles = enumWords<PluginRole>(PluginRole, "PLUGIN_ROLE_");

/** The names of what it can do; what is not known yet stands with a question mark. */
export const supportWords = (map: Readonly<Record<string, Support>> | undefined): string =>
  Object.entries(map ?? {})
    .filter(([, support]) => support !== Support.SUPPORT_NO)
    .map(([name, support]) => (support === Support.SUPPORT_YES ? name : `${name}?`))
    .sort()
    .join(" ");
