/**
 * The capability mask. One plugin has one mask, whatever process asks: the spec wants GetPluginCapabilities to agree
 * over all instances. Names carry their level because EXPAND_VOLUME and others exist at two.
 */
export const capabilityNames = [
  "plugin.CONTROLLER_SERVICE",
  "plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS",
  "plugin.GROUP_CONTROLLER_SERVICE",
  "plugin.SNAPSHOT_METADATA_SERVICE",
  "plugin.SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
  "plugin.EXPANSION_ONLINE",
  "plugin.EXPANSION_OFFLINE",
  "controller.CREATE_DELETE_VOLUME",
  "controller.PUBLISH_UNPUBLISH_VOLUME",
  "controller.LIST_VOLUMES",
  "controller.GET_CAPACITY",
  "controller.CREATE_DELETE_SNAPSHOT",
  "controller.LIST_SNAPSHOTS",
  "controller.CLONE_VOLUME",
  "controller.PUBLISH_READONLY",
  "controller.EXPAND_VOLUME",
  "controller.LIST_VOLUMES_PUBLISHED_NODES",
  "controller.VOLUME_CONDITION",
  "controller.GET_VOLUME",
  "controller.SINGLE_NODE_MULTI_WRITER",
  "controller.MODIFY_VOLUME",
  "controller.GET_SNAPSHOT",
  "controller.GET_VOLUME_HEALTH",
  "controller.LIST_VOLUME_HEALTH",
  "group.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
  "node.STAGE_UNSTAGE_VOLUME",
  "node.GET_VOLUME_STATS",
  "node.EXPAND_VOLUME",
  "node.VOLUME_CONDITION",
  "node.SINGLE_NODE_MULTI_WRITER",
  "node.VOLUME_MOUNT_GROUP",
  "node.GET_VOLUME_HEALTH",
  "node.GET_STORAGE_HEALTH",
] as const;

export type Capability = (typeof capabilityNames)[number];

/** What CSI 1.13 took away, and what it brought. */
const conditions: readonly Capability[] = ["controller.VOLUME_CONDITION", "node.VOLUME_CONDITION"];
const broughtBy113: readonly Capability[] = [
  "plugin.SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
  "controller.GET_VOLUME_HEALTH",
  "controller.LIST_VOLUME_HEALTH",
  "node.GET_VOLUME_HEALTH",
  "node.GET_STORAGE_HEALTH",
];
/** A mask that turns the plugin into one of CSI 1.13; without it, it is one of 1.12. */
export const csi113: Required<Pick<CapabilityMask, "with" | "without">> = { with: broughtBy113, without: conditions };
const offUnlessTold: ReadonlySet<Capability> = new Set<Capability>(["plugin.EXPANSION_OFFLINE", ...broughtBy113]);

/** `only` starts from nothing, otherwise everything of 1.12 is on but EXPANSION_OFFLINE, which contradicts ONLINE. */
export interface CapabilityMask {
  readonly only?: readonly Capability[];
  readonly without?: readonly Capability[];
  readonly with?: readonly Capability[];
}

export const resolveCapabilities = (mask: CapabilityMask = {}): ReadonlySet<Capability> => {
  const set = new Set<Capability>(mask.only ?? capabilityNames.filter((name) => !offUnlessTold.has(name)));
  for (const name of mask.with ?? []) set.add(name);
  for (const name of mask.without ?? []) set.delete(name);
  const owner: Record<string, Capability> = {
    controller: "plugin.CONTROLLER_SERVICE",
    group: "plugin.GROUP_CONTROLLER_SERVICE",
  };
  // A service that is not there offers nothing.
  for (const name of [...set]) {
    const service = owner[name.slice(0, name.indexOf("."))];
    if (service !== undefined && !set.has(service)) set.delete(name);
  }
  return set;
};

/** The names of one level without their prefix. */
export const capabilitiesAt = (
  level: "plugin" | "controller" | "group" | "node",
  set: ReadonlySet<Capability>,
): string[] => [...set].filter((name) => name.startsWith(`${level}.`)).map((name) => name.slice(level.length + 1));
