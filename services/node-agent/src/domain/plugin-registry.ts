/**
 * The plugins that a runner hosts through this agent: for each type and name a stack of instances, one an allocation, the
 * newest in front. An allocation may have several plugins, so that an instance is known by both.
 *
 * R1 An instance enters its stacks once, in front, when it was ready for the first time; the same again changes nothing,
 *    and never the order.
 * R2 The front is the current instance. Whenever another one gets there, by coming or by the front's leaving, it is told.
 * R3 A monolith stands in both types and enters and leaves them in one step; one type never touches the other.
 * R4 What is not there cannot leave: nothing changes and nothing is told.
 * R5 No two instances have one place, and each keeps the one that it was prepared with.
 */
export const pluginTypes = ["controller", "node"] as const;
export type PluginType = (typeof pluginTypes)[number];
export type InstanceRole = PluginType | "monolith";

export interface InstanceKey {
  readonly plugin: string;
  readonly allocation: string;
}

/** What the runner asked for: fixed for the life of the instance. */
export interface HostedInstance extends InstanceKey {
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
  /** It has a place of its own beside that of the allocation. */
  readonly ownPlace?: true | undefined;
}

/** What the directory of a socket is named after: the allocation, and the plugin where that has a place of its own. */
export type Place = readonly [allocation: string, plugin?: string];

export interface PluginRegistry {
  /** One for each allocation and plugin, in the order of their preparation. */
  readonly entries: readonly RegistryEntry[];
  readonly lastOrder: number;
}

/**
 * An instance by its place, as a journal has it: the allocation alone names the one that has its place, in records of versions for which
 * an allocation had one plugin as well. The others are named so that those versions know nothing of them.
 */
type AtPlace = { readonly allocation: string } | { readonly beside: InstanceKey };

export type RegistryChange =
  | { readonly type: "prepared"; readonly instance: HostedInstance; readonly ownPlace?: boolean | undefined }
  | ({ readonly type: "registered"; readonly at: number; readonly nodeId: string } & AtPlace)
  | ({ readonly type: "removed" } & AtPlace);

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

/** For maps: the name of a plugin has no space. */
export const keyOf = ({ plugin, allocation }: InstanceKey): string => `${plugin} ${allocation}`;

/** All of an allocation, or the one that is named. */
export const entriesOf = (
  registry: PluginRegistry,
  { allocation, plugin }: { readonly allocation: string; readonly plugin?: string | undefined },
): readonly RegistryEntry[] =>
  registry.entries.filter(
    ({ instance }) => instance.allocation === allocation && (plugin === undefined || instance.plugin === plugin),
  );

export const entryOf = (registry: PluginRegistry, instance: InstanceKey): RegistryEntry | undefined =>
  entriesOf(registry, instance)[0];

/** Undefined for one that nobody prepared. */
export const entryOfConnection = (
  registry: PluginRegistry,
  { instanceId, pin }: { readonly instanceId: string; pin(): { readonly name: string | undefined } },
): RegistryEntry | undefined => entryOf(registry, { allocation: instanceId, plugin: pin().name ?? "" });

const hasOwnPlace = ({ ownPlace }: RegistryEntry): boolean => ownPlace === true;

export const recordedPlace = ({ instance: { allocation, plugin }, ...entry }: RegistryEntry): AtPlace =>
  entry.ownPlace === true ? { beside: { allocation, plugin } } : { allocation };

const entryAt = (registry: PluginRegistry, place: AtPlace): RegistryEntry | undefined =>
  "beside" in place
    ? entriesOf(registry, place.beside).find(hasOwnPlace)
    : entriesOf(registry, place).find((entry) => !hasOwnPlace(entry));

export const placeOf = ({ instance: { allocation, plugin }, ownPlace }: RegistryEntry): Place =>
  ownPlace === true ? [allocation, plugin] : [allocation];

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
  prepared(registry, { instance, ownPlace = false }) {
    if (entryOf(registry, instance) !== undefined) return unchanged(registry);
    const { allocation } = instance;
    const taken = entriesOf(registry, { allocation }).some((entry) => !hasOwnPlace(entry));
    const own = ownPlace || taken ? { ownPlace: true as const } : {}; // R5
    const entry: RegistryEntry = { instance, order: 0, registeredAt: 0, nodeId: "", ...own };
    return { registry: { ...registry, entries: [...registry.entries, entry] }, events: [] };
  },

  registered(registry, { at, nodeId, ...place }) {
    const before = entryAt(registry, place);
    if (before === undefined || before.order > 0) return unchanged(registry); // R1
    const lastOrder = registry.lastOrder + 1;
    const after: RegistryEntry = { ...before, order: lastOrder, registeredAt: at, nodeId };
    const entries = registry.entries.map((entry) => (entry === before ? after : entry));
    return told(registry, { entries, lastOrder }, before, "registered");
  },

  removed(registry, place) {
    const before = entryAt(registry, place);
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

/** The first field in which two preparations of one instance differ. */
export function differingField(a: HostedInstance, b: HostedInstance): keyof HostedInstance | undefined {
  return (Object.keys(a) as (keyof HostedInstance)[]).find((field) => a[field] !== b[field]);
}
