/**
 * How many attach slots are used, and which sets wait for one: what this controller remembers, so that grants and placement ask
 * nobody.
 *
 * A1 The store's index of attachments is the truth: a grant is compared with it in its own commit. What is kept here is only a copy,
 * read again whenever it may be behind. A2 A number that was read while one of our own commits changed it is read again. A3 Sets wait
 * in the order of their tickets, and one that does not wait for slots alone keeps none from others. A4 Whatever gives room wakes those
 * that fit into it, first come first. A5 A set keeps its place until its volume's record shows that it waits no more: a doubt alone
 * would let those behind it pass.
 */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AttachLimit, SlotState, SlotWaiter } from "../../domain/attachment/slots.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { Store } from "../../ports.ts";
import { slotEntry, slotsOf } from "../volume/volume-codec.ts";

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
  /** undefined = not counted yet. */
  used(slots: string): number | undefined;
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
  waiting(): number;
}

export interface AttachSlotsDeps {
  readonly store: Pick<Store, "count">;
  readonly onError: (error: unknown) => void;
  readonly signal: AbortSignal;
}

interface Place {
  used: number | undefined;
  /** Rises with each change of ours. */
  version: number;
  readonly sets: Map<string, number>;
  readonly refused: Set<string>;
}

/** In one call; a call of thousands holds up nobody for long. */
const batch = 1_000;

const closed = (): HoldfastError =>
  new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "the attach slots were not counted" });

export const createAttachSlots = ({ store, onError, signal }: AttachSlotsDeps): AttachSlots => {
  const places = new Map<string, Place>();
  const sets = new Map<string, WaitingSet>();
  const byVolume = new Map<string, Set<string>>();
  const onNode = new Map<string, Set<string>>();
  const listeners = new Set<(volumes: readonly string[], refusedBefore: boolean) => void>();
  const unread = new Set<string>();
  let reading = false;

  const nodeOf = (slots: string): string => slots.slice(0, slots.indexOf("/"));

  const place = (slots: string): Place => {
    const known = places.get(slots);
    if (known !== undefined) return known;
    const fresh: Place = { used: undefined, version: 0, sets: new Map(), refused: new Set() };
    places.set(slots, fresh);
    onNode.set(nodeOf(slots), (onNode.get(nodeOf(slots)) ?? new Set()).add(slots));
    return fresh;
  };

  const tell = (volumes: readonly string[], refusedBefore: boolean): void => {
    if (volumes.length === 0) return;
    for (const listener of [...listeners]) listener(volumes, refusedBefore);
  };

  const inOrder = (at: Place): readonly SlotWaiter[] =>
    [...at.sets].map(([ticket, need]) => ({ ticket, need })).sort((a, b) => (a.ticket < b.ticket ? -1 : 1));

  /** A4. The first is woken in any case: it alone knows whether the limit has changed. */
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

  const freed = (at: Place, slots: number): void => {
    wakeFitting(at, slots);
    const before = [...at.refused];
    at.refused.clear();
    tell(before, true);
  };

  const read = async (slots: readonly string[]): Promise<void> => {
    const asked = slots.map((each) => ({ each, at: place(each), version: place(each).version }));
    const counts = await store.count(slots.map(slotEntry));
    for (const [i, { each, at, version }] of asked.entries()) {
      const used = counts[i];
      if (used === undefined) throw closed();
      if (at.version !== version) {
        readSoon(each); // A2
        continue;
      }
      const fewer = (at.used ?? used) - used;
      at.used = used;
      if (fewer > 0) freed(at, fewer);
    }
  };

  const readAll = async (): Promise<void> => {
    while (unread.size > 0 && !signal.aborted) {
      const next = [...unread].slice(0, batch);
      for (const slots of next) unread.delete(slots);
      try {
        await read(next);
      } catch (error) {
        // Whoever asks next asks again; until then the commit alone knows.
        for (const slots of next) place(slots).used = undefined;
        if (!signal.aborted) onError(error);
        return;
      }
    }
  };

  const readSoon = (slots: string): void => {
    unread.add(slots);
    if (reading) return;
    reading = true;
    queueMicrotask(() => void readAll().finally(() => (reading = false)));
  };

  const change = (slots: string, by: 1 | -1): void => {
    const at = place(slots);
    at.version += 1;
    if (at.used !== undefined) at.used += by;
    if (by < 0) freed(at, 1);
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
      // A4: what it kept from those behind it is theirs now.
      if (at.sets.delete(ticket)) wakeFitting(at, need);
    }
  };

  const stillQueued = (volume: VolumeRecord | null, ticket: string): boolean =>
    Object.values(volume?.claims ?? {}).some((c) => c.ticket === ticket && c.state === "QUEUED");

  const saw = (key: string, record: VolumeRecord | null): void => {
    const tickets = byVolume.get(key);
    if (tickets === undefined) return;
    const over = [...tickets].filter((ticket) => !stillQueued(record, ticket));
    for (const ticket of over) leave(ticket); // A3, A5
    // A read that was overtaken may have shown the past: then it waits again.
    if (over.length > 0) tell([key], false);
  };

  return {
    state(slots, limit) {
      if (limit.limit === Number.POSITIVE_INFINITY) return undefined;
      const at = place(slots);
      if (at.used === undefined) readSoon(slots);
      return { ...limit, used: at.used, waiting: at.sets.size === 0 ? [] : inOrder(at) };
    },
    used: (slots) => places.get(slots)?.used,
    stored(before, after) {
      const [had, has] = [new Set(slotsOf(before)), new Set(after === null ? [] : slotsOf(after))];
      saw(volumeKey(before), after);
      for (const slots of has) if (!had.has(slots)) change(slots, 1);
      for (const slots of had) if (!has.has(slots)) change(slots, -1);
    },
    saw,
    doubt(volumes) {
      for (const volume of volumes)
        for (const slots of volume === null || volume === undefined ? [] : slotsOf(volume)) {
          place(slots).version += 1;
          readSoon(slots);
        }
    },
    async recount(slots) {
      for (let n = 0; n < slots.length; n += batch) await read(slots.slice(n, n + batch));
    },
    learnOf(volume, node) {
      if (byVolume.has(volume)) tell([volume], false); // A5
      // A number that nobody has asked for is not read anew: a node without a limit would be counted at every change of others.
      for (const slots of onNode.get(node ?? "") ?? []) if (isWatched(place(slots))) readSoon(slots);
    },
    forgetAll() {
      for (const [slots, at] of places) {
        at.version += 1;
        if (at.used !== undefined) readSoon(slots);
      }
      tell([...byVolume.keys()], false); // A5
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
      if (at.used === undefined) readSoon(slots);
    },
    onRoom(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    waiting: () => sets.size,
  };
};

const isWatched = ({ used, sets, refused }: Place): boolean => used !== undefined || sets.size > 0 || refused.size > 0;

const sameNeeds = (a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>): boolean =>
  a.size === b.size && [...a].every(([slots, need]) => b.get(slots) === need);
