/**
 * How many attach slots are used, and which sets wait for one: what this controller remembers, so that grants and placement ask
 * nobody.
 *
 * A1 The store's index of attachments is the truth: a grant is compared with it in its own commit. A2 Sets wait in the order of their
 * tickets, and one that does not wait for slots alone keeps none from others. A3 Whatever gives room wakes those that fit into it, first
 * come first; what one plugin of a pool gives up is room for all of them. A4 A set keeps its place until its volume's record shows that
 * it waits no more: a doubt alone would let those behind it pass.
 */
import {
  type AttachPool,
  countedSlots,
  isPoolKey,
  type PoolState,
  poolKey,
} from "../../domain/attachment/attach-pool.ts";
import { type AttachLimit, type SlotState, type SlotWaiter, slotKey } from "../../domain/attachment/slots.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { Store } from "../../ports.ts";
import type { CountedVolumes } from "../quota/counted-commit.ts";
import { slotsOf } from "../volume/volume-codec.ts";
import type { AttachLimitOf } from "../volume/volume-commit.ts";
import { createSlotCounts } from "./slot-counts.ts";

/** A set that lacks nothing but slots. */
export interface WaitingSet {
  /** The same for every member, and for no other set. */
  readonly ticket: string;
  /** Of its volumes. */
  readonly volumes: readonly string[];
  /** By slot key. */
  readonly needs: ReadonlyMap<string, number>;
}

export interface AttachSlots {
  /** undefined = the node takes any number. */
  state(slots: string, limit: AttachLimit): SlotState | undefined;
  /** undefined = the plugin shares no slots there. */
  pool(node: string, pool: AttachPool | undefined): PoolState | undefined;
  /** undefined = not counted yet. */
  used(slots: string): number | undefined;
  /** A commit of ours is about to store these changes; the answer is called at its end, whatever that is. */
  opens(changes: Pick<CountedVolumes, "found" | "decided">): () => void;
  /** A commit of ours put `after` in the place of `before`. */
  stored(before: VolumeRecord, after: VolumeRecord | null): void;
  /** Nobody knows whether a commit of ours changed these. */
  doubt(volumes: readonly (VolumeRecord | null | undefined)[]): void;
  /** Counts again. */
  recount(slots: readonly string[]): Promise<void>;
  /** The record of a volume was read, or what is remembered of it was looked at; null = there is none. */
  saw(volume: string, record: VolumeRecord | null): void;
  /** Somebody else changed a volume: whatever waits for that one is to be read anew, and the node is counted again. */
  learnOf(volume: string, node: string | undefined): void;
  forgetAll(): void;
  /** In place of whatever the set waited for before. */
  wait(set: WaitingSet): void;
  /** It waits for something else, or for nothing any more. */
  leave(ticket: string): void;
  /** The plugin refused to attach it there: it is tried again as soon as a slot is freed. */
  refused(slots: string, volume: string): void;
  onRoom(listener: (volumes: readonly string[], refusedBefore: boolean) => void): () => void;
  /** How many there are of some slots may be said anew: those who wait first are to look. */
  limitsChanged(): void;
  waiting(): number;
}

export interface AttachSlotsDeps {
  readonly store: Pick<Store, "count">;
  readonly attachLimit: AttachLimitOf;
  readonly onError: (error: unknown) => void;
  readonly signal: AbortSignal;
}

/** Who waits for slots of one name, of a plugin or of a pool. */
interface Place {
  readonly sets: Map<string, number>;
  /** Volumes that the plugin refused to attach there. */
  readonly refused: Set<string>;
}

/** A slot key says both. */
const pairOf = (slots: string): { readonly node: string; readonly plugin: string } => {
  const at = slots.indexOf("/");
  return { node: slots.slice(0, at), plugin: slots.slice(at + 1) };
};

export const createAttachSlots = ({ store, attachLimit, onError, signal }: AttachSlotsDeps): AttachSlots => {
  const places = new Map<string, Place>();
  const sets = new Map<string, WaitingSet>();
  const byVolume = new Map<string, Set<string>>();
  const onNode = new Map<string, Set<string>>();
  const listeners = new Set<(volumes: readonly string[], refusedBefore: boolean) => void>();
  const place = (slots: string): Place => {
    const known = places.get(slots);
    if (known !== undefined) return known;
    const fresh: Place = { sets: new Map(), refused: new Set() };
    const { node } = pairOf(slots);
    places.set(slots, fresh);
    onNode.set(node, (onNode.get(node) ?? new Set()).add(slots));
    return fresh;
  };

  const tell = (volumes: readonly string[], refusedBefore: boolean): void => {
    if (volumes.length === 0) return;
    for (const listener of [...listeners]) listener(volumes, refusedBefore);
  };

  const inOrder = (at: Place): readonly SlotWaiter[] =>
    [...at.sets].map(([ticket, need]) => ({ ticket, need })).sort((a, b) => (a.ticket < b.ticket ? -1 : 1));

  /** A3. The first is woken in any case: it alone knows whether the limit has changed. */
  const wakeFitting = (at: Place, room: number): void => {
    let left = room;
    const woken: string[] = [];
    for (const { ticket, need } of inOrder(at)) {
      const [first] = sets.get(ticket)?.volumes ?? [];
      if (first !== undefined) woken.push(first);
      left -= need;
      if (left <= 0) break;
    }
    tell(woken, false);
  };

  const freed = (slots: string, count: number): void => {
    wakeFitting(place(slots), count);
    const { node, plugin } = pairOf(slots);
    const { pool } = attachLimit(plugin, node);
    if (pool !== undefined) wakeFitting(place(poolKey(pool.name, node)), count);
    // A plugin may have refused for the slots that another one had.
    for (const each of countedSlots(plugin, node, pool)) {
      const { refused } = place(each);
      const before = [...refused];
      refused.clear();
      tell(before, true);
    }
  };

  const counts = createSlotCounts({ store, onError, signal, freed });

  const usedNow = (slots: string): number | undefined => {
    place(slots);
    return counts.usedNow(slots);
  };

  const leave = (ticket: string): void => {
    const set = sets.get(ticket);
    if (set === undefined) return;
    sets.delete(ticket);
    for (const volume of set.volumes) {
      const tickets = byVolume.get(volume);
      tickets?.delete(ticket);
      if (tickets?.size === 0) byVolume.delete(volume);
    }
    for (const [slots, need] of set.needs) {
      const at = place(slots);
      // A3: what it kept from those behind it is theirs now.
      if (at.sets.delete(ticket)) wakeFitting(at, need);
    }
  };

  const stillQueued = (volume: VolumeRecord | null, ticket: string): boolean =>
    Object.values(volume?.claims ?? {}).some((c) => c.ticket === ticket && c.state === "QUEUED");

  const saw = (key: string, record: VolumeRecord | null): void => {
    const tickets = byVolume.get(key);
    if (tickets === undefined) return;
    const over = [...tickets].filter((ticket) => !stillQueued(record, ticket));
    for (const ticket of over) leave(ticket); // A2, A4
    // A read that was overtaken may have shown the past: then it waits again.
    if (over.length > 0) tell([key], false);
  };

  return {
    state(slots, { limit, learned }) {
      if (limit === Number.POSITIVE_INFINITY) return undefined;
      return { limit, learned, used: usedNow(slots), waiting: inOrder(place(slots)) };
    },
    pool(node, pool) {
      if (pool === undefined) return undefined;
      const { name, limit, saidBy, plugins } = pool;
      const key = poolKey(name, node);
      const each = plugins.map((plugin) => ({ plugin, used: usedNow(slotKey(plugin, node)) }));
      const parts = each.map(({ plugin, used = 0 }) => ({ plugin, used }));
      const sum = parts.reduce((total, { used }) => total + used, 0);
      const used = each.some((part) => part.used === undefined) ? undefined : sum;
      return { name, limit, saidBy, learned: false, key, parts, used, waiting: inOrder(place(key)) };
    },
    used: counts.used,
    opens({ found, decided }) {
      const moved = decided.flatMap((change, i) => {
        const before = found[i]?.volume;
        return before === undefined || change === undefined ? [] : [...movedBy(before, change.volume).keys()];
      });
      return counts.opens(moved);
    },
    stored(before, after) {
      saw(volumeKey(before), after);
      for (const [slots, by] of movedBy(before, after)) counts.change(slots, by);
    },
    saw,
    doubt(volumes) {
      counts.doubt(volumes.flatMap((volume) => (volume === null || volume === undefined ? [] : slotsOf(volume))));
    },
    recount: counts.recount,
    learnOf(volume, node) {
      if (byVolume.has(volume)) tell([volume], false); // A4
      // A number that nobody has asked for is not read anew: a node without a limit would be counted at every change of others.
      const known = [...(onNode.get(node ?? "") ?? [])];
      // Who waits for a pool waits for what any of its plugins gives back.
      const pooled = known.some((slots) => isPoolKey(slots) && place(slots).sets.size > 0);
      for (const slots of known)
        if (!isPoolKey(slots) && (pooled || counts.used(slots) !== undefined || isWatched(place(slots))))
          counts.readSoon(slots);
    },
    forgetAll() {
      counts.forgetAll();
      tell([...byVolume.keys()], false); // A4
    },
    wait(set) {
      const known = sets.get(set.ticket);
      if (known !== undefined && sameNeeds(known.needs, set.needs)) return;
      leave(set.ticket);
      sets.set(set.ticket, set);
      for (const volume of set.volumes) byVolume.set(volume, (byVolume.get(volume) ?? new Set()).add(set.ticket));
      for (const [slots, need] of set.needs) place(slots).sets.set(set.ticket, need);
    },
    leave,
    refused(slots, volume) {
      const at = place(slots);
      at.refused.add(volume);
      const { node, plugin } = pairOf(slots);
      for (const each of countedSlots(plugin, node, attachLimit(plugin, node).pool)) usedNow(each);
    },
    limitsChanged() {
      for (const at of places.values()) if (at.sets.size > 0) wakeFitting(at, 1);
    },
    onRoom(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    waiting: () => sets.size,
  };
};

const isWatched = ({ sets, refused }: Place): boolean => sets.size > 0 || refused.size > 0;

/** Slots that a volume takes (1) or gives back (-1) by a change. */
const movedBy = (before: VolumeRecord, after: VolumeRecord | null): ReadonlyMap<string, 1 | -1> => {
  const [had, has] = [new Set(slotsOf(before)), new Set(after === null ? [] : slotsOf(after))];
  const moved = new Map<string, 1 | -1>();
  for (const slots of has) if (!had.has(slots)) moved.set(slots, 1);
  for (const slots of had) if (!has.has(slots)) moved.set(slots, -1);
  return moved;
};

const sameNeeds = (a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>): boolean =>
  a.size === b.size && [...a].every(([slots, need]) => b.get(slots) === need);
