import { secretUsers } from "../domain/secret/secret.ts";
import type { CutKind, CutRecord, CutRef, GroupRecord, SnapshotRecord } from "../domain/snapshot/snapshot.ts";
import { isCutBlocked, needsVolume } from "../domain/snapshot/snapshot-bar.ts";
import { planCut } from "../domain/snapshot/snapshot-steps.ts";
import type { AggregateRef, IndexEntry, RecordWrite } from "../domain/store-types.ts";
import { volumeKey } from "../domain/volume/volume.ts";
import { type RecordReader, recordReader } from "./shape/record-reader.ts";
import { cutShape } from "./shape/record-shapes.ts";
import { cutTombstoneShape } from "./shape/tombstone-shapes.ts";
import { safetyMs, tombstoneTtlMs } from "./volume/volume-codec.ts";

/** How snapshots and groups stand in the store: keys, indexes, due times, JSON. */

export type CutIndex =
  | `${CutKind}-${"all" | "namespace" | "volume" | "plugin" | "unsettled" | "blocked" | "source"}`
  | OwnIndex;
type OwnIndex = "snapshot-group" | "snapshot-external";

export const cutQueue = "snapshots";

export const cutRef = (ref: CutRef): AggregateRef => ({ kind: ref.kind, key: volumeKey(ref) });

export const cutTombstoneRef = (ref: CutRef): AggregateRef => ({
  kind: "tombstone",
  key: `${ref.kind}/${volumeKey(ref)}`,
});

/** What is left of one that is gone, for seven days. */
export interface CutTombstone extends CutRef {
  readonly uid: string;
  readonly deletedAt: number;
}

/** By this a backend's snapshot belongs to one record: to delete one never deletes another's. */
export const externalEntry = (plugin: string, externalId: string): IndexEntry => ({
  index: "snapshot-external" satisfies CutIndex,
  value: `${plugin}/${externalId}`,
});

/** Carried while a snapshot or a group may still need the volume: who deletes the volume has to be alone with these. */
export const cutPins = (volumeUid: string): readonly IndexEntry[] =>
  (["snapshot-source", "group-source"] satisfies CutIndex[]).map((index) => ({ index, value: volumeUid }));

const entry = (index: CutIndex, value: string): IndexEntry => ({ index, value });

const snapshotIndexes = (record: SnapshotRecord, unsettled: boolean): readonly IndexEntry[] => [
  entry("snapshot-all", "all"),
  entry("snapshot-namespace", record.namespace),
  entry("snapshot-volume", `${record.namespace}/${record.volume}`),
  entry("snapshot-plugin", record.plugin),
  ...(record.group === "" ? [] : [entry("snapshot-group", `${record.namespace}/${record.group}`)]),
  ...(record.externalId === "" ? [] : [externalEntry(record.plugin, record.externalId)]),
  // Of a group it is the group that holds on to the volumes, until all of it is ready.
  ...(record.group === "" && needsVolume(record) ? [entry("snapshot-source", record.volumeUid)] : []),
  ...(unsettled ? [entry("snapshot-unsettled", "all")] : []),
  // Of a group it is the group that is blocked.
  ...(record.group === "" && isCutBlocked(record) ? [entry("snapshot-blocked", "all")] : []),
  ...secretUsers(Object.values(record.secretRefs)),
];

const groupIndexes = (record: GroupRecord, unsettled: boolean): readonly IndexEntry[] => [
  entry("group-all", "all"),
  entry("group-namespace", record.namespace),
  entry("group-plugin", record.plugin),
  ...record.members.map(({ volume }) => entry("group-volume", `${record.namespace}/${volume}`)),
  ...(needsVolume(record) ? record.members.map(({ volumeUid }) => entry("group-source", volumeUid)) : []),
  ...(unsettled ? [entry("group-unsettled", "all")] : []),
  ...(isCutBlocked(record) ? [entry("group-blocked", "all")] : []),
  ...secretUsers(Object.values(record.secretRefs)),
];

/** When the record should be looked at next; undefined = nothing is owed. */
const dueAt = (record: CutRecord, now: number): number | undefined => {
  const times = planCut(record, now).map(({ at }) => (at > now ? at : now + safetyMs));
  return times.length === 0 ? undefined : Math.min(...times);
};

/** Most have no bar: a record without one looks as it did before there were any. */
const writeBody = ({ bars, ...record }: CutRecord): string =>
  JSON.stringify(bars.length === 0 ? record : { ...record, bars });

export const readCutBody = (body: string): CutRecord => ({ bars: [], ...JSON.parse(body) });

export interface EncodedCut {
  readonly write: RecordWrite;
  readonly due: number | undefined;
}

export const encodeCut = (record: CutRecord, expectedRev: number, now: number): EncodedCut => {
  const at = dueAt(record, now);
  const unsettled = at !== undefined;
  return {
    write: {
      ref: cutRef(record),
      expectedRev,
      body: writeBody(record),
      indexes: record.kind === "snapshot" ? snapshotIndexes(record, unsettled) : groupIndexes(record, unsettled),
      due: at === undefined ? [] : [{ queue: cutQueue, at }],
    },
    due: at,
  };
};

export const encodeCutRemoval = (ref: CutRef, expectedRev: number): RecordWrite => ({
  ref: cutRef(ref),
  expectedRev,
  body: null,
  indexes: [],
  due: [],
});

export const encodeCutTombstone = (record: CutRecord, expectedRev: number, now: number): RecordWrite => {
  const { kind, namespace, id, uid } = record;
  const tombstone: CutTombstone = { kind, namespace, id, uid, deletedAt: now };
  return {
    ref: cutTombstoneRef(record),
    expectedRev,
    body: JSON.stringify(tombstone),
    indexes: [],
    due: [],
    ttlMs: tombstoneTtlMs,
  };
};

const readCut: Record<CutKind, RecordReader<CutRecord>> = {
  snapshot: recordReader<CutRecord>({ shape: cutShape("snapshot"), keyOf: volumeKey, parse: readCutBody }),
  group: recordReader<CutRecord>({ shape: cutShape("group"), keyOf: volumeKey, parse: readCutBody }),
};
export const decodeCut: RecordReader<CutRecord> = (stored) =>
  readCut[stored.ref.kind === "group" ? "group" : "snapshot"](stored);
export const decodeCutTombstone = recordReader<CutTombstone>({
  shape: cutTombstoneShape,
  keyOf: (tombstone) => cutTombstoneRef(tombstone).key,
});
