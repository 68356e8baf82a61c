/** What is known of instances of a plugin that are not there any more: which are missed, and where the last one was. */
import type { LastSeen, MissedInstance, PluginRecord } from "./plugin-record.ts";

export interface InstancesNow {
  /** Whether a node half runs there. */
  runsOn(node: string): boolean;
  /** Whether the node is registered. */
  hasNode(node: string): boolean;
  readonly gone: Readonly<Record<string, MissedInstance>>;
  /** Set when none is left anywhere. */
  readonly last?: LastSeen | undefined;
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The same record when there is no news. One that is back is missed no more, nor is one of a node that is forgotten. */
export const withMissed = (record: PluginRecord, { runsOn, hasNode, gone, last }: InstancesNow): PluginRecord => {
  const all = Object.entries({ ...gone, ...record.missed }).filter(([node]) => !runsOn(node) && hasNode(node));
  const missed = Object.fromEntries(all.sort(([a], [b]) => (a < b ? -1 : 1)));
  const lastSeen = last ?? record.lastSeen;
  if (same(missed, record.missed ?? {}) && same(lastSeen, record.lastSeen)) return record;
  const { missed: _m, lastSeen: _l, ...rest } = record;
  return {
    ...rest,
    ...(all.length === 0 ? {} : { missed }),
    ...(lastSeen === undefined ? {} : { lastSeen }),
  };
};

/** A person's word that the node shall have none. */
export const withoutMissed = (record: PluginRecord, node: string): PluginRecord => {
  if (record.missed?.[node] === undefined) return record;
  const { [node]: _gone, ...missed } = record.missed;
  const { missed: _m, ...rest } = record;
  return Object.keys(missed).length === 0 ? rest : { ...rest, missed };
};

/** Undefined of a plugin of which only a profile is known: it never ran. */
export const lastSeenOf = (record: PluginRecord | undefined): string | undefined => {
  const told = record?.versions[0]?.toldAt;
  const { node, at } = record?.lastSeen ?? { node: undefined, at: told };
  if (at === undefined) return undefined;
  const where = node === undefined ? "" : node === "" ? " beside a controller" : ` on node ${node}`;
  return `the last one was seen${where} at ${new Date(at).toISOString()}`;
};
