import { slotKey } from "../../domain/attachment/slots.ts";
import type { Claim, ClaimTombstone } from "../../domain/claim/claim.ts";
import { needsSource } from "../../domain/doubt.ts";
import { secretUsers } from "../../domain/secret/secret.ts";
import { isBlocked } from "../../domain/size/growth.ts";
import { planSteps } from "../../domain/steps.ts";
import type { AggregateRef, IndexEntry, RecordWrite } from "../../domain/store-types.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import { recordReader } from "../shape/record-reader.ts";
import { volumeShape } from "../shape/record-shapes.ts";
import { claimTombstoneShape, deleteMarkShape, volumeTombstoneShape } from "../shape/tombstone-shapes.ts";
import { readVolumeBody, writeVolumeBody } from "./volume-body.ts";

/** How volumes and what is left of them stand in the store: keys, indexes, due times, JSON. */

export type VolumeIndex =
  | "volume-all"
  | "volume-namespace"
  | "volume-plugin"
  | "volume-unsettled"
  | "volume-external"
  | "volume-blocked"
  | "volume-state"
  | "volume-abnormal"
  | "claim-namespace"
  | "volume-source"
  | "claim-node"
  | "claim-workload"
  | "slot";

export type TombstoneIndex = "over-workload" | "over-namespace";

/** What is left of deleted volumes, by the storage that they stood for. */
export const goneExternal = "over-external";

export const dueQueue = "volumes";

/** A step that is ready is looked at again after this long, should every other wake-up be lost. */
export const safetyMs = 30_000;

/** Claims that only wait to be granted: what they wait for wakes them, and there may be very many of them. */
export const quietMs = 300_000;

export const tombstoneTtlMs = 7 * 24 * 3_600_000;

export const volumeRef = (ref: VolumeRef): AggregateRef => ({ kind: "volume", key: volumeKey(ref) });

/** The other way round of `volumeKey`; ids hold no slash. */
export const refOfKey = (key: string): VolumeRef => {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, slash), id: key.slice(slash + 1) };
};

/** One piece of storage, however many records may want to stand for it. */
export const externalValue = (plugin: string, externalId: string): string => `${plugin}/${externalId}`;

/** Carried by a volume while a create from a snapshot or from another volume is owed: who deletes that has to be alone with it. */
export const sourcePin = (uid: string): IndexEntry => ({ index: "volume-source" satisfies VolumeIndex, value: uid });

export const workloadValue = (namespace: string, workload: string): string => `${namespace}/${workload}`;

/** The life of a claim that is over, as its tombstone is found. */
export type EndedLife = Pick<ClaimTombstone, "namespace" | "volume" | "workload" | "alias" | "uid">;

export const claimTombstoneRef = (t: EndedLife): AggregateRef => ({
  kind: "tombstone",
  // The uid makes each life a record of its own: written once, never compared with an older life.
  key: `${t.namespace}/${t.volume}/${t.workload}/${t.alias}/${t.uid}`,
});

/** Storage at a backend, by its plugin and the plugin's own id for it. */
export interface Storage {
  readonly plugin: string;
  readonly externalId: string;
}

/** Every volume that has a name at its plugin carries this: the storage has one record. */
export const externalEntry = ({ plugin, externalId }: Storage): IndexEntry => ({
  index: "volume-external" satisfies VolumeIndex,
  value: externalValue(plugin, externalId),
});

export const volumeTombstoneRef = (ref: VolumeRef): AggregateRef => ({ kind: "tombstone", key: volumeKey(ref) });

/** What is left of a deleted volume for seven days. */
export interface VolumeTombstone extends VolumeRef {
  readonly uid: string;
  readonly plugin: string;
  readonly externalId: string;
  /** The storage was left as it is: deregistered, or deleted under the policy to retain it. */
  readonly kept?: true;
  /** A person dropped the record: what became of the storage is not known. */
  readonly forgotten?: true;
  readonly deletedAt: number;
}

/** Every reference of a record, those of its attachments too: what was attached with a secret is detached with it. */
const secretRefsOf = ({ secretRefs, attachments, bars }: VolumeRecord): readonly (string | undefined)[] => [
  ...Object.values(secretRefs),
  ...Object.values(attachments).map(({ secretRef }) => secretRef),
  ...bars.map(({ attachment }) => attachment?.secretRef),
];

/** Carried by every volume that the plugin has attached to the node: their number is what of its slots is used. */
export const slotEntry = (slots: string): IndexEntry => ({ index: "slot" satisfies VolumeIndex, value: slots });

/** The slots that a volume has, in whatever state its attachments are. */
export const slotsOf = ({ plugin, attachments }: VolumeRecord): readonly string[] =>
  Object.keys(attachments).map((node) => slotKey(plugin, node));

const indexesOf = (volume: VolumeRecord, unsettled: boolean): readonly IndexEntry[] => {
  const claims: readonly Claim[] = Object.values(volume.claims);
  const nodes = new Set([
    ...claims.map((c) => c.node),
    ...Object.keys(volume.attachments),
    ...volume.bars.flatMap(({ node }) => (node === "" ? [] : [node])),
    ...(volume.foreign ?? []).map((hold) => hold.node),
  ]);
  const workloads = new Set(claims.map((c) => workloadValue(volume.namespace, c.workload)));
  const entries: IndexEntry[] = [];
  const add = (index: VolumeIndex, value: string): void => void entries.push({ index, value });
  add("volume-all", "all");
  add("volume-namespace", volume.namespace);
  add("volume-plugin", volume.plugin);
  if (claims.length > 0) add("claim-namespace", volume.namespace);
  for (const node of nodes) add("claim-node", node);
  for (const workload of workloads) add("claim-workload", workload);
  if (volume.externalId !== "") entries.push(externalEntry(volume));
  for (const slots of slotsOf(volume)) entries.push(slotEntry(slots));
  if (unsettled) add("volume-unsettled", "all");
  entries.push(...secretUsers(secretRefsOf(volume)));
  if (volume.condition !== undefined || volume.health !== undefined) add("volume-abnormal", "all");
  if (isBlocked(volume)) add("volume-blocked", "all");
  // Most volumes are AVAILABLE most of the time: who asks for the others finds them without looking at those.
  if (volume.state !== "AVAILABLE") add("volume-state", volume.state);
  if (volume.source !== undefined && needsSource(volume)) entries.push(sourcePin(volume.source.uid));
  return entries;
};

/** When a record should be looked at next; undefined = it is settled. */
export const dueAt = (volume: VolumeRecord, now: number): number | undefined => {
  const { ready, next } = planSteps(volume, now);
  const quiet = ready.every((step) => step.do === "grant");
  const safety = ready.length > 0 ? now + (quiet ? quietMs : safetyMs) : undefined;
  if (next === undefined || safety === undefined) return next ?? safety;
  return Math.min(next, safety);
};

export interface EncodedVolume {
  readonly write: RecordWrite;
  readonly due: number | undefined;
}

export const encodeVolume = (volume: VolumeRecord, expectedRev: number, now: number): EncodedVolume => {
  const at = dueAt(volume, now);
  return {
    write: {
      ref: volumeRef(volume),
      expectedRev,
      body: writeVolumeBody(volume),
      indexes: indexesOf(volume, at !== undefined),
      due: at === undefined ? [] : [{ queue: dueQueue, at }],
    },
    due: at,
  };
};

export const encodeRemoval = (ref: VolumeRef, expectedRev: number): RecordWrite => ({
  ref: volumeRef(ref),
  expectedRev,
  body: null,
  indexes: [],
  due: [],
});

/** The agent may hold it still, whenever it speaks again; without its tombstone the hold would be foreign then. */
const endedOnWord = ({ state, failure }: ClaimTombstone): boolean =>
  state === "FENCED" || failure?.reason === "CLAIM_ABANDONED" || failure?.reason === "VOLUME_FORGOTTEN";

export const encodeClaimTombstone = (tombstone: ClaimTombstone): RecordWrite => {
  const entry = (index: TombstoneIndex, value: string): IndexEntry => ({ index, value });
  return {
    ref: claimTombstoneRef(tombstone),
    expectedRev: 0,
    body: JSON.stringify(tombstone),
    indexes: [
      entry("over-workload", workloadValue(tombstone.namespace, tombstone.workload)),
      entry("over-namespace", tombstone.namespace),
    ],
    due: [],
    ...(endedOnWord(tombstone) ? {} : { ttlMs: tombstoneTtlMs }),
  };
};

export const encodeVolumeTombstone = (
  volume: VolumeRecord,
  expectedRev: number,
  now: number,
  forgotten: boolean,
): RecordWrite => {
  const tombstone: VolumeTombstone = {
    namespace: volume.namespace,
    id: volume.id,
    uid: volume.uid,
    plugin: volume.plugin,
    externalId: volume.externalId,
    ...(volume.state === "DELETING" || volume.externalId === "" ? {} : { kept: true as const }),
    ...(forgotten ? { forgotten: true as const } : {}),
    deletedAt: now,
  };
  return {
    ref: volumeTombstoneRef(volume),
    expectedRev,
    body: JSON.stringify(tombstone),
    indexes:
      volume.externalId === "" ? [] : [{ index: goneExternal, value: externalValue(volume.plugin, volume.externalId) }],
    due: [],
    ttlMs: tombstoneTtlMs,
  };
};

/** What is left when the record of a volume went before its DeleteVolume was known to be over: that call may still arrive. */
export interface DeleteMark extends Storage, VolumeRef {
  readonly uid: string;
  readonly since: number;
}

/** No id begins with "~": never the place of a volume's or a claim's tombstone. */
export const deleteMarkRef = ({ plugin, externalId }: Storage): AggregateRef => ({
  kind: "tombstone",
  key: `~delete/${plugin}/${externalId}`,
});

export const encodeDeleteMark = (volume: VolumeRecord, expectedRev: number, now: number): RecordWrite => {
  const { plugin, externalId, namespace, id, uid } = volume;
  const mark: DeleteMark = { plugin, externalId, namespace, id, uid, since: now };
  return {
    ref: deleteMarkRef(volume),
    expectedRev,
    body: JSON.stringify(mark),
    indexes: [],
    due: [],
    ttlMs: tombstoneTtlMs,
  };
};

export const decodeVolume = recordReader<VolumeRecord>({
  shape: volumeShape,
  keyOf: volumeKey,
  parse: readVolumeBody,
});
export const decodeClaimTombstone = recordReader<ClaimTombstone>({
  shape: claimTombstoneShape,
  keyOf: (tombstone) => claimTombstoneRef(tombstone).key,
});
export const decodeDeleteMark = recordReader<DeleteMark>({
  shape: deleteMarkShape,
  keyOf: (mark) => deleteMarkRef(mark).key,
});
export const decodeVolumeTombstone = recordReader<VolumeTombstone>({ shape: volumeTombstoneShape, keyOf: volumeKey });
