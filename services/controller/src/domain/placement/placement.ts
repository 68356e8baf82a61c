/**
 * Where a workload's volumes can be used: rule G1 asked of many nodes at once, everything that speaks against each and not only the
 * first. What nodes of a class share is judged once a class; what is left for a node is its name, its machine and its slots.
 */
import { affects, healthText, type StorageHealthStatus } from "@holdfast/model/health";
import type { Tri } from "@holdfast/model/tri";
import { type PoolState, poolFull } from "../attachment/attach-pool.ts";
import { type SlotState, slotsFull, slotsLeft } from "../attachment/slots.ts";
import { isOfOtherMachine } from "../claim/grant.ts";
import type { BackendCapacity } from "../plugin/backend-capacity.ts";
import type { ClassHalf, NodeClass } from "./node-class.ts";
import { excluded, lastTicket, type VolumeAsk } from "./placement-ask.ts";
import { type PlacementReason, placementReason, type TopologyDifference } from "./placement-reason.ts";

export interface PlacementQuestion {
  readonly asks: readonly VolumeAsk[];
  /** Against every node. */
  readonly always: readonly PlacementReason[];
  readonly plugins: readonly string[];
}

export interface ClassVerdict {
  readonly reasons: readonly PlacementReason[];
  /** 0 to 1: how far the volumes' wishes for a topology are met. */
  readonly wishes: number;
  /** 0 to 1: the share of the volumes to whose storage the way is degraded. */
  readonly degraded: number;
}

export interface PlacedNode {
  readonly name: string;
  readonly machineId: string;
  readonly machinesBefore?: readonly string[] | undefined;
  /** Of a plugin; undefined = any number. */
  readonly slots: (plugin: string) => SlotState | undefined;
  /** That the plugin shares; undefined = none. */
  readonly pool: (plugin: string) => PoolState | undefined;
}

export interface Placement {
  readonly node: string;
  readonly reasons: readonly PlacementReason[];
  readonly score: number;
}

const none: readonly PlacementReason[] = [];

export const questionOf = (asks: readonly VolumeAsk[], unvetted: string | undefined): PlacementQuestion => ({
  asks,
  always: [
    ...(unvetted === undefined ? none : [placementReason("STORE_UNVETTED", unvetted)]),
    ...asks.flatMap(({ always }) => always),
    ...excluded(asks),
  ],
  plugins: [...new Set(asks.map(({ plugin }) => plugin))].filter((plugin) => plugin !== ""),
});

const meets = (node: ReadonlyMap<string, string>, wanted: ReadonlyMap<string, string>): boolean => {
  for (const [key, value] of wanted) if (node.get(key) !== value) return false;
  return true;
};

/** Key by key, over everything that would do. */
const differences = (
  { folded }: ClassHalf,
  accessible: readonly ReadonlyMap<string, string>[],
): readonly TopologyDifference[] => {
  const wanted = new Map<string, Set<string>>();
  for (const segments of accessible)
    for (const [key, value] of segments)
      if (folded.get(key) !== value) wanted.set(key, (wanted.get(key) ?? new Set()).add(value));
  return [...wanted].map(([key, values]) => ({ key, wanted: [...values], has: folded.get(key) ?? "" }));
};

const topologyReason = (ask: VolumeAsk, half: ClassHalf): readonly PlacementReason[] => {
  if (ask.accessible.length === 0 || ask.accessible.some((wanted) => meets(half.folded, wanted))) return none;
  const topology = differences(half, ask.accessible);
  const keys = topology.map(
    ({ key, wanted, has }) => `${key} has to be ${wanted.join(" or ")} and is ${has === "" ? "not given" : has}`,
  );
  const message = `volume ${ask.key} cannot be reached from there: ${keys.join("; ")}`;
  return [placementReason("TOPOLOGY_MISMATCH", message, { volume: ask.id, plugin: ask.plugin, topology })];
};

const pluginReasons = (plugin: string, half: ClassHalf | undefined, attaches: Tri): readonly PlacementReason[] => {
  const of = { plugin };
  if (half === undefined) return [placementReason("PLUGIN_MISSING", `plugin ${plugin} has no instance there`, of)];
  const reasons: PlacementReason[] = [];
  if (half.health !== "HEALTHY")
    reasons.push(placementReason("PLUGIN_UNHEALTHY", `plugin ${plugin} is ${half.health} there`, of));
  else if (!half.named)
    reasons.push(
      placementReason("PLUGIN_UNHEALTHY", `plugin ${plugin} has not told its name for the node there yet`, of),
    );
  if (attaches === "unknown") {
    const message = `no controller instance of plugin ${plugin} was seen that could say whether volumes are attached`;
    reasons.push(placementReason("CONTROLLER_PLUGIN_MISSING", message, of));
  }
  return reasons;
};

const storageSaid = ({ claim, plugin }: VolumeAsk, halves: NodeClass["halves"], status: StorageHealthStatus) =>
  claim === undefined
    ? []
    : (halves.get(plugin)?.storage ?? []).filter((entry) => entry.status === status && affects(entry, claim));

const storageReason = (ask: VolumeAsk, halves: NodeClass["halves"]): readonly PlacementReason[] => {
  const lost = storageSaid(ask, halves, "STORAGE_UNREACHABLE");
  if (lost.length === 0) return none;
  const message = `volume ${ask.key} cannot be used there: plugin ${ask.plugin} says ${healthText(lost)}`;
  return [placementReason("STORAGE_UNREACHABLE", message, { volume: ask.id, plugin: ask.plugin })];
};

/** What the plugin says that it has left there; undefined = it does not say, which is no obstacle. */
export type RoomFor = (ask: VolumeAsk) => BackendCapacity | undefined;

const roomReason = (ask: VolumeAsk, roomFor: RoomFor): readonly PlacementReason[] => {
  const room = ask.unmade === undefined ? undefined : roomFor(ask);
  if (room === undefined || ask.unmade === undefined) return none;
  const { bytes } = ask.unmade;
  const { available, maximumVolume } = room;
  const most = maximumVolume > 0 ? Math.min(available, maximumVolume) : available;
  if (bytes <= most) return none;
  const what =
    available < bytes ? `has ${available} bytes left there` : `makes none there of more than ${maximumVolume}`;
  const message = `plugin ${ask.plugin} ${what}, and volume ${ask.key}, which is yet to be made, needs ${bytes}`;
  return [placementReason("CAPACITY", message, { volume: ask.id, plugin: ask.plugin })];
};

/** The share of the volumes with wishes whose first, second … wish is met, the first counting most. */
const wishesMet = (asks: readonly VolumeAsk[], halves: NodeClass["halves"]): number => {
  let asked = 0;
  let met = 0;
  for (const { preferred, plugin } of asks) {
    const half = halves.get(plugin);
    if (preferred.length === 0 || half === undefined) continue;
    asked += 1;
    const place = preferred.findIndex((wanted) => meets(half.folded, wanted));
    if (place >= 0) met += 1 - place / preferred.length;
  }
  return asked === 0 ? 1 : met / asked;
};

/** What all nodes of the class share. */
export const judgeClass = (
  { asks, plugins }: PlacementQuestion,
  { state, drained, halves }: NodeClass,
  attaches: (plugin: string) => Tri,
  roomFor: RoomFor,
): ClassVerdict => ({
  reasons: [
    ...(state === "READY" ? none : [placementReason("NODE_NOT_READY", `the node is ${state}`)]),
    ...(drained ? [placementReason("NODE_DRAINED", "the node is being drained, or was")] : none),
    ...plugins.flatMap((plugin) => pluginReasons(plugin, halves.get(plugin), attaches(plugin))),
    ...asks.flatMap((ask) => {
      const half = halves.get(ask.plugin);
      return half === undefined
        ? none
        : [...topologyReason(ask, half), ...storageReason(ask, halves), ...roomReason(ask, roomFor)];
    }),
  ],
  wishes: wishesMet(asks, halves),
  degraded:
    asks.filter((ask) => storageSaid(ask, halves, "STORAGE_DEGRADED").length > 0).length / Math.max(1, asks.length),
});

/** Slots that the volumes of one plugin would take beside those that they give back. */
const needOf = ({ asks }: PlacementQuestion, plugin: string, node: string) => {
  const taken = new Set<string>();
  const given = new Set<string>();
  for (const ask of asks) {
    if (ask.plugin !== plugin || ask.claim === undefined) continue;
    const pair = ask.named.get(node) ?? ask.elsewhere;
    if (!pair.attached) taken.add(ask.key);
    if (pair.freed) given.add(ask.key);
  }
  return { need: taken.size, freed: given.size };
};

interface Demand {
  need: number;
  freed: number;
  readonly freedOf: Map<string, number>;
}

/** What lacks slots on a node, of a plugin or of a pool, and the share of them that is free. */
const slotReasons = (question: PlacementQuestion, node: PlacedNode) => {
  const reasons: PlacementReason[] = [];
  const pools = new Map<string, { readonly pool: PoolState; readonly demand: Demand }>();
  let free = 1;
  const lacking = (slots: SlotState, { need, freed }: { readonly need: number; readonly freed: number }) => {
    const left = slotsLeft(slots, lastTicket) + freed;
    free = Math.min(free, Math.max(0, left) / Math.max(1, slots.limit));
    if (need <= left || need === 0) return undefined;
    const used = (slots.used ?? 0) - freed;
    return { used, short: { limit: slots.limit, used, needed: need }, transient: slots.learned || need <= slots.limit };
  };
  for (const plugin of question.plugins) {
    const demand = needOf(question, plugin, node.name);
    const [slots, pool] = [node.slots(plugin), node.pool(plugin)];
    const lack = slots && lacking(slots, demand);
    if (slots !== undefined && lack !== undefined) {
      const message = slotsFull(plugin, node.name, { ...slots, used: lack.used }, demand.need);
      reasons.push(placementReason("ATTACH_LIMIT", message, { plugin, transient: lack.transient, slots: lack.short }));
    }
    if (pool === undefined) continue;
    const of = pools.get(pool.key) ?? { pool, demand: { need: 0, freed: 0, freedOf: new Map<string, number>() } };
    of.demand.need += demand.need;
    of.demand.freed += demand.freed;
    of.demand.freedOf.set(plugin, demand.freed);
    pools.set(pool.key, of);
  }
  for (const { pool, demand } of pools.values()) {
    const lack = lacking(pool, demand);
    if (lack === undefined) continue;
    const parts = pool.parts.map((part) => ({ ...part, used: part.used - (demand.freedOf.get(part.plugin) ?? 0) }));
    const then = { ...pool, used: lack.used, parts };
    const slots = { ...lack.short, pool: then };
    const message = poolFull(node.name, then, demand.need);
    reasons.push(placementReason("ATTACH_LIMIT", message, { transient: lack.transient, slots }));
  }
  return { reasons, free };
};

/** One node, beside what was found about its class. */
export const placeOn = (question: PlacementQuestion, found: ClassVerdict, node: PlacedNode): Placement => {
  const own: PlacementReason[] = [];
  let attached = 0;
  for (const { key, id, plugin, named, elsewhere } of question.asks) {
    const pair = named.get(node.name) ?? elsewhere;
    own.push(...pair.reasons);
    if (pair.attached) attached += 1;
    if (isOfOtherMachine(pair, node)) {
      const message = `volume ${key} is still held by machine ${pair.machineId}, which had the node's name`;
      own.push(placementReason("NODE_NOT_READY", message, { volume: id, plugin }));
    }
  }
  const { reasons: short, free } = slotReasons(question, node);
  own.push(...short);
  const reasons = [...question.always, ...found.reasons, ...own];
  const share = attached / Math.max(1, question.asks.length);
  return {
    node: node.name,
    reasons,
    score:
      reasons.length > 0
        ? 0
        : Math.max(0, Math.round(60 * share + 20 * found.wishes + 20 * free - 10 * found.degraded)),
  };
};
