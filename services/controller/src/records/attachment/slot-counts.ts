/**
 * How many attach slots are used, as the store's index of attachments says: what this controller remembers of it.
 *
 * SC1 What is kept here is only a copy, read again whenever it may be behind. SC2 A number that was read while one of our own commits
 * changed it, or was on its way, is read again: nothing tells which of the two the store saw first.
 */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Store } from "../../ports.ts";
import { slotEntry } from "../volume/volume-codec.ts";

export interface SlotCounts {
  /** undefined = not counted yet. */
  used(slots: string): number | undefined;
  /** The same, and counts what is not counted yet. */
  usedNow(slots: string): number | undefined;
  /** A commit of ours has changed it. */
  change(slots: string, by: 1 | -1): void;
  /** A commit of ours that changes these is on its way, until the answer is called. */
  opens(slots: readonly string[]): () => void;
  /** Nobody knows whether a commit of ours changed these. */
  doubt(slots: readonly string[]): void;
  recount(slots: readonly string[]): Promise<void>;
  readSoon(slots: string): void;
  forgetAll(): void;
}

export interface SlotCountsDeps {
  readonly store: Pick<Store, "count">;
  readonly onError: (error: unknown) => void;
  readonly signal: AbortSignal;
  readonly freed: (slots: string, count: number) => void;
}

interface Count {
  used: number | undefined;
  /** Rises with each change of ours. */
  version: number;
  /** Commits of ours on their way. */
  open: number;
  /** It was read meanwhile. */
  behind: boolean;
}

/** In one call; a call of thousands holds up nobody for long. */
const batch = 1_000;

const closed = (): HoldfastError =>
  new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "the attach slots were not counted" });

export const createSlotCounts = ({ store, onError, signal, freed }: SlotCountsDeps): SlotCounts => {
  const counts = new Map<string, Count>();
  const unread = new Set<string>();
  let reading = false;

  const of = (slots: string): Count => {
    const known = counts.get(slots);
    if (known !== undefined) return known;
    const fresh: Count = { used: undefined, version: 0, open: 0, behind: false };
    counts.set(slots, fresh);
    return fresh;
  };

  const read = async (slots: readonly string[]): Promise<void> => {
    const asked = slots.map((each) => ({ each, at: of(each), version: of(each).version }));
    const found = await store.count(slots.map(slotEntry));
    for (const [i, { each, at, version }] of asked.entries()) {
      const used = found[i];
      if (used === undefined) throw closed();
      if (at.open > 0)
        at.behind = true; // SC2
      else if (at.version !== version)
        readSoon(each); // SC2
      else {
        const fewer = (at.used ?? used) - used;
        at.used = used;
        if (fewer > 0) freed(each, fewer);
      }
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
        for (const slots of next) of(slots).used = undefined;
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

  return {
    used: (slots) => counts.get(slots)?.used,
    usedNow(slots) {
      const { used } = of(slots);
      if (used === undefined) readSoon(slots);
      return used;
    },
    change(slots, by) {
      const at = of(slots);
      at.version += 1;
      if (at.used !== undefined) at.used += by;
      if (by < 0) freed(slots, 1);
    },
    opens(slots) {
      for (const each of slots) of(each).open += 1;
      return () => {
        for (const each of slots) {
          const at = of(each);
          at.open -= 1;
          if (at.open > 0 || !at.behind) continue;
          at.behind = false;
          readSoon(each);
        }
      };
    },
    doubt(slots) {
      for (const each of slots) {
        of(each).version += 1;
        readSoon(each);
      }
    },
    async recount(slots) {
      for (let n = 0; n < slots.length; n += batch) await read(slots.slice(n, n + batch));
    },
    readSoon,
    forgetAll() {
      for (const [slots, at] of counts) {
        at.version += 1;
        if (at.used !== undefined) readSoon(slots);
      }
    },
  };
};
