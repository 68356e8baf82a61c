/**
 * The plugins that a runner hosts through this agent: for each type and name a stack of instances, one an allocation, the
 * newest in front.
 *
 * R1 An instance enters its stacks once, in front, when it was ready for the first time; the same again changes nothing,
 *    and never the order.
 * R2 The front is the current instance. Whenever another one gets there, by coming or by the front's leaving, it is told.
 * R3 A monolith stands in both types and enters and leaves them in one step; one type never touches the other.
 * R4 What is not there cannot leave: nothing changes and nothing is told.
 */
export const pluginTypes = ["controller", "node"] as const;
export type PluginType = (typeof pluginTypes)[number];
export type InstanceRole = PluginType | "monolith";

/** What the runner asked for: fixed for the life of the allocation. */
export interface HostedInstance {
  readonly plugin: string;
  readonly allocation: string;
  readonly role: InstanceRole;
  /** Where its container makes the socket, and where it sees the agent's root. */
  readonly socketDir: string;
  readonly publishDir: string;
  readonly healthTimeoutMs: number;
  /** It runs with the host's own file tree. */
  readonly hostFilesystem: boolean;
  /** Its restart is asked for although volumes or calls need it. */
  readonly restartInUse: boolean;
}

export interface RegistryEntry {
  readonly instance: HostedInstance;
  /** Rises with each registration; 0 before its own. */
  readonly order: number;
  /** Wall clock, for display. */
  readonly registeredAt: number;
  /** What it called its node when it registered; another one later is another plugin. */
  readonly nodeId: string;
}

export interface PluginRegistry {
  /** One an allocation, in the order of their preparation. */
  readonly entries: readonly RegistryEntry[];
  readonly lastOrder: number;
}

export type RegistryChange =
  | { readonly type: "prepared"; readonly instance: HostedInstance }
  | { readonly type: "registered"; readonly allocation: string; readonly at: number; readonly nodeId: string }
  | { readonly type: "removed"; readonly allocation: string };

export interface RegistryEvent {
  /** `current` with no allocation: the stack is empty now. */
  readonly type: "registered" | "removed" | "current";
  readonly pluginType: PluginType;
  readonly plugin: string;
  readonly allocation: string | undefined;
}

export interface RegistryStep {
  readonly registry: PluginRegistry;
  readonly events: readonly RegistryEvent[];
}

export const emptyRegistry: PluginRegistry = { entries: [], lastOrder: 0 };

const typesOf: Record<InstanceRole, readonly PluginType[]> = {
  controller: ["controller"],
  node: ["node"],
  monolith: pluginTypes,
};

export const serves = (role: InstanceRole, type: PluginType): boolean => typesOf[role].includes(type);

export const entryOf = (registry: PluginRegistry, allocation: string): RegistryEntry | undefined =>
  registry.entries.find(({ instance }) => instance.allocation === allocation);

/** Newest first. */
export const stackOf = (registry: PluginRegistry, type: PluginType, plugin: string): readonly RegistryEntry[] =>
  registry.entries
    .filter(({ instance, order }) => order > 0 && instance.plugin === plugin && serves(instance.role, type))
    .sort((a, b) => b.order - a.order);

/** R2 */
export const currentOf = (registry: PluginRegistry, type: PluginType, plugin: string): string | undefined =>
  stackOf(registry, type, plugin)[0]?.instance.allocation;

/** In front of every stack that it belongs to. */
export const isCurrent = (registry: PluginRegistry, { instance, order }: RegistryEntry): boolean =>
  order > 0 &&
  typesOf[instance.role].every((type) => currentOf(registry, type, instance.plugin) === instance.allocation);

type Steps = {
  readonly [T in RegistryChange["type"]]: (
    registry: PluginRegistry,
    change: Extract<RegistryChange, { type: T }>,
  ) => RegistryStep;
};

const unchanged = (registry: PluginRegistry): RegistryStep => ({ registry, events: [] });

const steps: Steps = {
  prepared(registry, { instance }) {
    if (entryOf(registry, instance.allocation) !== undefined) return unchanged(registry);
    const entry: RegistryEntry = { instance, order: 0, registeredAt: 0, nodeId: "" };
    return { registry: { ...registry, entries: [...registry.entries, entry] }, events: [] };
  },

  registered(registry, { allocation, at, nodeId }) {
    const before = entryOf(registry, allocation);
    if (before === undefined || before.order > 0) return unchanged(registry); // R1
    const lastOrder = registry.lastOrder + 1;
    const after: RegistryEntry = { ...before, order: lastOrder, registeredAt: at, nodeId };
    const entries = registry.entries.map((entry) => (entry === before ? after : entry));
    return told(registry, { entries, lastOrder }, before, "registered");
  },

  removed(registry, { allocation }) {
    const before = entryOf(registry, allocation);
    if (before === undefined) return unchanged(registry); // R4
    const after = { ...registry, entries: registry.entries.filter((entry) => entry !== before) };
    return before.order === 0 ? { registry: after, events: [] } : told(registry, after, before, "removed");
  },
};

/** R2 and R3: each type for itself, first what came or went, then who is in front because of it. */
function told(
  before: PluginRegistry,
  after: PluginRegistry,
  { instance: { plugin, allocation, role } }: RegistryEntry,
  type: "registered" | "removed",
): RegistryStep {
  const events = typesOf[role].flatMap((pluginType): RegistryEvent[] => {
    const current = currentOf(after, pluginType, plugin);
    const own: RegistryEvent = { type, pluginType, plugin, allocation };
    if (current === currentOf(before, pluginType, plugin)) return [own];
    return [own, { type: "current", pluginType, plugin, allocation: current }];
  });
  return { registry: after, events };
}

export function applyRegistryChange(registry: PluginRegistry, change: RegistryChange): RegistryStep {
  switch (change.type) {
    case "prepared":
      return steps.prepared(registry, change);
    case "registered":
      return steps.registered(registry, change);
    case "removed":
      return steps.removed(registry, change);
  }
}

/** The first field in which two preparations of one allocation differ. */
export function differingField(a: HostedInstance, b: HostedInstance): keyof HostedInstance | undefined {
  return (Object.keys(a) as (keyof HostedInstance)[]).find((field) => a[field] !== b[field]);
}
