/**
 * How much of each thing a namespace may have, and how much it has.
 *
 * What has a record counts, whatever its state, until the record is gone. A volume counts with the largest of what was asked for it,
 * what an expansion asks for, and what the backend says: a backend that makes more than it was asked for is counted with all of it.
 */
import { isPending } from "../size/expansion.ts";
import { type CutRecord, membersOf } from "../snapshot/snapshot.ts";
import type { ExpectedRecord, RecordWrite } from "../store-types.ts";
import type { VolumeRecord } from "../volume/volume.ts";

export const quotaItems = ["volumes", "bytes", "snapshots"] as const;
export type QuotaItem = (typeof quotaItems)[number];
/** `bytes` are those of volumes. */
export type Usage = Readonly<Record<QuotaItem, number>>;

export interface QuotaRecord {
  readonly namespace: string;
  /** What is absent has no bound. */
  readonly limits: Partial<Usage>;
  /** Absent until the records of the namespace were counted: nothing is made in it before. */
  readonly used?: Usage;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly changedBy: { readonly who: string; readonly why: string };
}

/** What becomes of one record that counts; `before` is absent for a new one, `after` for one that goes. */
export interface CountedChange {
  readonly namespace: string;
  readonly before?: Usage | undefined;
  readonly after?: Usage | undefined;
  /** Somebody asks for it. What a backend has done already is counted and never refused. */
  readonly asked: boolean;
  /** It has no size that could be held against a number of bytes. */
  readonly sizeless?: boolean;
}

/** What a commit carries so that it counts: it is stored with these, or not at all. */
export interface QuotaTerms {
  readonly writes: readonly RecordWrite[];
  readonly expects: readonly ExpectedRecord[];
}

/** Asked around every commit that may change what is counted; `commit` may be asked of another round later. */
export type CountWith = <T>(changes: readonly CountedChange[], commit: (terms: QuotaTerms) => Promise<T>) => Promise<T>;

export const noTerms: QuotaTerms = { writes: [], expects: [] };
export const uncounted: CountWith = (_changes, commit) => commit(noTerms);
export const noUsage: Usage = { volumes: 0, bytes: 0, snapshots: 0 };

const wishOf = ({ capacity, expansion }: VolumeRecord): number =>
  isPending(expansion)
    ? Math.max(capacity.required, expansion.target.required, expansion.next?.required ?? 0)
    : capacity.required;

export const bytesOf = (volume: VolumeRecord): number =>
  Math.max(wishOf(volume), volume.capacity.actual, volume.growth?.bytes ?? 0, volume.source?.sizeBytes ?? 0);

export const usageOfVolume = (volume: VolumeRecord): Usage => ({ volumes: 1, bytes: bytesOf(volume), snapshots: 0 });

/** Undefined: nothing that is counted changes, as with every claim. */
export const changeOfVolume = (
  before: VolumeRecord | undefined,
  after: VolumeRecord | null,
): CountedChange | undefined => {
  const volume = after ?? before;
  if (volume === undefined) return undefined;
  const { namespace } = volume;
  if (after === null) return { namespace, before: before && usageOfVolume(before), asked: false };
  // Storage that exists already has the size that its plugin tells.
  const sizeless = after.externalId === "" && bytesOf(after) === 0;
  if (before === undefined) return { namespace, after: usageOfVolume(after), asked: true, sizeless };
  if (bytesOf(before) === bytesOf(after)) return undefined;
  const asked = isPending(after.expansion) && wishOf(after) > wishOf(before);
  return { namespace, before: usageOfVolume(before), after: usageOfVolume(after), asked };
};

const usageOfCut = (record: CutRecord): Usage => ({
  ...noUsage,
  snapshots: record.kind === "group" ? membersOf(record).length : 1,
});

export const changeOfCut = (before: CutRecord | undefined, after: CutRecord | null): CountedChange | undefined => {
  const record = after ?? before;
  if (record === undefined || (before !== undefined && after !== null)) return undefined;
  return {
    namespace: record.namespace,
    before: before && usageOfCut(before),
    after: after === null ? undefined : usageOfCut(after),
    asked: before === undefined,
  };
};

const combined = (a: Usage, b: Usage, sign: 1 | -1): Usage => ({
  volumes: a.volumes + sign * b.volumes,
  bytes: a.bytes + sign * b.bytes,
  snapshots: a.snapshots + sign * b.snapshots,
});

export const plus = (a: Usage, b: Usage): Usage => combined(a, b, 1);

export interface Added {
  /** All that changes. */
  readonly all: Usage;
  /** What somebody asks for of it. */
  readonly asked: Usage;
  readonly sizeless: boolean;
}

/** By namespace; those whose usage stays the same are left out. */
export const addedBy = (changes: readonly CountedChange[]): ReadonlyMap<string, Added> => {
  const added = new Map<string, Added>();
  for (const { namespace, before = noUsage, after = noUsage, asked, sizeless = false } of changes) {
    const by = combined(after, before, -1);
    if (quotaItems.every((item) => by[item] === 0)) continue;
    const known = added.get(namespace) ?? { all: noUsage, asked: noUsage, sizeless: false };
    added.set(namespace, {
      all: plus(known.all, by),
      asked: asked ? plus(known.asked, by) : known.asked,
      sizeless: known.sizeless || sizeless,
    });
  }
  return added;
};

export interface Excess {
  readonly item: QuotaItem;
  readonly limit: number;
  readonly used: number;
  readonly asked: number;
}

/** The first that is asked for beyond its limit. */
export const excessOf = (limits: Partial<Usage>, used: Usage, { all, asked }: Added): Excess | undefined => {
  for (const item of quotaItems) {
    const limit = limits[item];
    if (limit !== undefined && asked[item] > 0 && used[item] + all[item] > limit)
      return { item, limit, used: used[item], asked: asked[item] };
  }
  return undefined;
};
