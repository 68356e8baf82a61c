/**
 * A pool of attach slots: plugins whose volumes share the places of a machine. What is used of it is the sum of its plugins' attachments
 * there, so that a plugin joins and leaves with its profile, and nothing that is stored has to change.
 */
import { type SlotState, slotKey, slotsFull, slotsLeft } from "./slots.ts";

/** On one node. */
export interface AttachPool {
  readonly name: string;
  readonly limit: number;
  /** The plugin whose profile says so: of several that say different limits the smallest counts. */
  readonly saidBy: string;
  /** Every plugin of the pool, in order. */
  readonly plugins: readonly string[];
}

export interface PoolState extends SlotState, Omit<AttachPool, "plugins"> {
  readonly key: string;
  readonly parts: readonly { readonly plugin: string; readonly used: number }[];
}

/** Names the slots of a pool on a node; no plugin's name has a slash. */
export const poolKey = (pool: string, node: string): string => `${node}//${pool}`;

export const isPoolKey = (slots: string): boolean => slots.includes("//");

/** The slots of all plugins whose attachments count where one of this plugin is made. */
export const countedSlots = (plugin: string, node: string, pool: AttachPool | undefined): readonly string[] =>
  [...new Set([plugin, ...(pool?.plugins ?? [])])].map((each) => slotKey(each, node));

/** Why no more may be attached there, for people. */
export const poolFull = (node: string, pool: PoolState, need: number): string => {
  const { name, limit, saidBy, used = 0, parts } = pool;
  const byPlugin = parts.map((part) => `${part.used} by plugin ${part.plugin}`).join(" and ");
  const has = `pool ${name} on node ${node}: ${used} of ${limit}, of them ${byPlugin} (the profile of plugin ${saidBy} says ${limit})`;
  const wanted = need > 1 ? `; ${need} more are asked for together` : "";
  return limit - used >= need ? `${has}${wanted}; others wait for the slots that are left` : `${has}${wanted}`;
};

/** Slots that other members of a claim's set take on its node: of its plugin, and of its plugin's pool. */
export interface TakenSlots {
  readonly slots: number;
  readonly pool: number;
}

export interface SlotsLacking {
  readonly message: string;
  readonly limit: number;
  readonly pool?: string;
}

/** undefined = one more may be attached there, of the plugin and of its pool. */
export const slotsLacking = (
  plugin: string,
  { node, ticket }: { readonly node: string; readonly ticket: string },
  { slots, pool }: { readonly slots?: SlotState; readonly pool?: PoolState },
  taken: TakenSlots = { slots: 0, pool: 0 },
): SlotsLacking | undefined => {
  if (slots !== undefined && slotsLeft(slots, ticket) <= taken.slots)
    return { message: slotsFull(plugin, node, slots, taken.slots + 1), limit: slots.limit };
  if (pool !== undefined && slotsLeft(pool, ticket) <= taken.pool)
    return { message: poolFull(node, pool, taken.pool + 1), limit: pool.limit, pool: pool.name };
  return undefined;
};
