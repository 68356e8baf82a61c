import type { AttachProfile } from "./attach-profile.ts";
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

/** Another plugin whose profile names the same pool of attach slots. */
export interface PoolMate {
  readonly plugin: string;
  readonly limit: number;
}

/** Profiles of one pool that differ: none of them is refused, as each is changed after the other. */
export const poolFindings = (name: string, own: AttachProfile, mates: readonly PoolMate[]): readonly string[] => {
  const others = mates.filter(({ limit }) => limit !== own.attachPoolLimit);
  if (others.length === 0) return [];
  const said = others.map(({ plugin, limit }) => `that of plugin ${plugin} says ${limit}`).join(", ");
  return [
    `the profile of plugin ${name} says ${own.attachPoolLimit} attachments a node for pool ${own.attachPool}, ${said}: the smallest counts; say one number in all of them with holdfast plugin profile`,
  ];
};
