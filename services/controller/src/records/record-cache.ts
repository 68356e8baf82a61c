import type { VolumeRecord } from "../domain/volume/volume.ts";
import { workloadValue } from "./volume/volume-codec.ts";

export interface VersionedVolume {
  readonly volume: VolumeRecord;
  readonly rev: number;
}

export interface RecordCache {
  get(key: string): VersionedVolume | undefined;
  /** Remembers it unless something newer is remembered; answers what was given. */
  keep(key: string, entry: VersionedVolume): VersionedVolume;
  drop(key: string): void;
  /** Another controller committed the revision: older ones are forgotten, and a read that was overtaken brings none back. */
  outdated(key: string, rev: number): void;
  clear(): void;
  /** What is remembered with claims of that workload. There may be more in the store. */
  ofWorkload(namespace: string, workload: string): readonly VersionedVolume[];
}

const workloadsOf = ({ namespace, claims }: VolumeRecord): ReadonlySet<string> =>
  new Set(Object.values(claims).map(({ workload }) => workloadValue(namespace, workload)));

/** The records that were committed or read last, so that the hot path reads nothing. Bounded; the longest unused goes first. */
export const createRecordCache = (limit = 2048): RecordCache => {
  const entries = new Map<string, VersionedVolume>();
  const byWorkload = new Map<string, Set<string>>();
  /** The newest revision that another controller told of, by key: as many as there are entries. */
  const told = new Map<string, number>();
  /** The last of the entries: it is asked for many times in a row. */
  let newest = "";

  const enter = (key: string, entry: VersionedVolume): void => {
    entries.set(key, entry);
    newest = key;
    for (const workload of workloadsOf(entry.volume)) {
      const keys = byWorkload.get(workload);
      if (keys === undefined) byWorkload.set(workload, new Set([key]));
      else keys.add(key);
    }
  };
  const leave = (key: string, entry: VersionedVolume): void => {
    entries.delete(key);
    for (const workload of workloadsOf(entry.volume)) {
      const keys = byWorkload.get(workload);
      keys?.delete(key);
      if (keys?.size === 0) byWorkload.delete(workload);
    }
  };
  const drop = (key: string): void => {
    const entry = entries.get(key);
    if (entry !== undefined) leave(key, entry);
  };

  return {
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined || key === newest) return entry;
      entries.delete(key);
      entries.set(key, entry);
      newest = key;
      return entry;
    },
    keep(key, entry) {
      // A read that was overtaken by a commit must not bring the past back.
      if (Math.max(entries.get(key)?.rev ?? 0, told.get(key) ?? 0) > entry.rev) return entry;
      drop(key);
      enter(key, entry);
      const oldest = entries.size > limit ? entries.keys().next().value : undefined;
      if (oldest !== undefined) drop(oldest);
      return entry;
    },
    drop,
    outdated(key, rev) {
      if ((entries.get(key)?.rev ?? 0) < rev) drop(key);
      told.delete(key);
      told.set(key, rev);
      const oldest = told.size > limit ? told.keys().next().value : undefined;
      if (oldest !== undefined) told.delete(oldest);
    },
    clear() {
      entries.clear();
      told.clear();
      byWorkload.clear();
    },
    ofWorkload: (namespace, workload) =>
      [...(byWorkload.get(workloadValue(namespace, workload)) ?? [])].flatMap((key) => entries.get(key) ?? []),
  };
};
