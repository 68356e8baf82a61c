import type { Capabilities } from "./plugin-record.ts";

/** What a plugin says of itself that CSI does not allow, and what Holdfast makes of it. Nothing is held up for it. */
export const pluginFindings = (name: string, capabilities: Capabilities): readonly string[] => {
  const says = (capability: string) => capabilities[`controller:${capability}`];
  return says("LIST_VOLUME_HEALTH") === "yes" && says("GET_VOLUME_HEALTH") === "no"
    ? [
        `plugin ${name} announces LIST_VOLUME_HEALTH without GET_VOLUME_HEALTH, which CSI asks for with it: what it lists of a volume is shown and never taken back, since a list may miss a volume that is unwell; the driver has to be mended`,
      ]
    : [];
};
