import type { VolumeRecord } from "../domain/volume.ts";

interface Entry {
  readonly volume: VolumeRecord;
  readonly rev: number;
}

export interface RecordCache {
  get(key: string): Entry | undefined;
  /** Remembers it unless something newer is remembered; answers what was given. */
  keep(key: string, entry: Entry): Entry;
  drop(key: string): void;
  clear(): void;
}

/** The records that were committed or read last, so that the hot path reads nothing. Bounded; the longest unused goes first. */
export const createRecordCache = (limit = 2048): RecordCache => {
  const entries = new Map<string, Entry>();
  return {
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      entries.delete(key);
      entries.set(key, entry);
      return entry;
    },
    keep(key, entry) {
      // A read that was overtaken by a commit must not bring the past back.
      if ((entries.get(key)?.rev ?? 0) > entry.rev) return entry;
      entries.delete(key);
      entries.set(key, entry);
      if (entries.size > limit) {
        const oldest = entries.keys().next().value;
        if (oldest !== undefined) entries.delete(oldest);
      }
      return entry;
    },
    drop(key) {
      entries.delete(key);
    },
    clear() {
      entries.clear();
    },
  };
};
