/** The settings of who may do what. */
import { listSetting, optional, type Setting } from "@holdfast/shared/config/setting";
import { anyName } from "./domain/access/access-grant.ts";
import { idPattern } from "./domain/limits.ts";

const names = listSetting({
  env: "HOLDFAST_NODE_NAMESPACES",
  doc: "Namespaces in which agents may ask for claims on their nodes, as programs on their hosts want them (PrepareWorkload); * is every one. In a namespace for which a grant has ticket keys, tickets decide instead. Without it: none where HOLDFAST_TLS_DIR is set, every one otherwise. The same for every controller.",
});

const nodeNamespaces: Setting<readonly string[]> = {
  ...names,
  parse(text) {
    const parsed = names.parse(text);
    if ("wrong" in parsed || (parsed.value.length === 1 && parsed.value[0] === anyName)) return parsed;
    const odd = parsed.value.find((one) => !idPattern.test(one));
    return odd === undefined
      ? parsed
      : { wrong: `item ${JSON.stringify(odd)} has to be a namespace; * stands alone, for every one` };
  },
};

export const accessSettings = { nodeNamespaces: optional(nodeNamespaces) };
