import { coversOne, differingKeys } from "../volume/source-topology.ts";
import type { Segments } from "../volume/volume.ts";
import type { CutRecord, GroupMember, GroupRecord, SnapshotRecord } from "./snapshot.ts";

/** One snapshot as the plugin describes it. */
export interface MadeSnapshot {
  readonly externalId: string;
  readonly externalVolumeId: string;
  /** Set when it can be deleted only together with its group. */
  readonly externalGroupId: string;
  readonly sizeBytes: number;
  readonly cutAt: number;
  readonly ready: boolean;
  /** Where volumes can be made from it; absent = everywhere, or the plugin does not tell. */
  readonly usableFrom?: readonly Segments[];
}

/** What CreateSnapshot and CreateVolumeGroupSnapshot answered; a single one is its own only member. */
export interface CutAnswer {
  readonly externalId: string;
  readonly cutAt: number;
  readonly ready: boolean;
  readonly pluginVersion: string;
  readonly snapshots: readonly MadeSnapshot[];
}

/** What the record learns, or why the answer cannot be about it. `ids` alone: enough to delete it by, not to use it. */
export type Reading<R> =
  | { readonly kind: "fits"; readonly record: R; readonly ready: boolean }
  | { readonly kind: "partial"; readonly record: R; readonly because: string }
  | { readonly kind: "contradicts"; readonly because: string };

const places = ({ usableFrom }: MadeSnapshot): { readonly usableFrom?: readonly Segments[] } =>
  usableFrom === undefined ? {} : { usableFrom };

/** Its id and its source never change: an answer with others is about something else, whatever its name. */
const readSnapshot = (record: SnapshotRecord, answer: CutAnswer): Reading<SnapshotRecord> => {
  const [made] = answer.snapshots;
  if (made === undefined || answer.snapshots.length > 1)
    return { kind: "contradicts", because: `answered with ${answer.snapshots.length} snapshots instead of one` };
  if (made.externalVolumeId !== record.externalVolumeId)
    return {
      kind: "contradicts",
      because: `answered with a snapshot of volume ${made.externalVolumeId} instead of ${record.externalVolumeId}`,
    };
  if (record.externalId !== "" && record.externalId !== made.externalId)
    return {
      kind: "contradicts",
      because: `answered with the id ${made.externalId} for the name that it gave the id ${record.externalId} before`,
    };
  // "usable from accessibility_requirements": one that is not is none of ours.
  const { askedPlaces = [] } = record;
  if (made.usableFrom !== undefined && !coversOne(askedPlaces, made.usableFrom))
    return {
      kind: "contradicts",
      because: `answered with a snapshot that cannot be used where it was asked for: ${differingKeys(askedPlaces, made.usableFrom).join("; ")}`,
    };
  return {
    kind: "fits",
    ready: made.ready,
    record: {
      ...record,
      externalId: made.externalId,
      externalGroupId: made.externalGroupId,
      sizeBytes: made.sizeBytes,
      cutAt: made.cutAt,
      ...places(made),
      pluginVersion: answer.pluginVersion,
    },
  };
};

const sameIds = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && new Set([...a, ...b]).size === new Set(a).size;

/** Each source of the group once, and nothing else. */
const membersIn = (group: GroupRecord, { snapshots }: CutAnswer): readonly GroupMember[] | string => {
  const wanted = new Set(group.members.map(({ externalVolumeId }) => externalVolumeId));
  const stranger = snapshots.find(({ externalVolumeId }) => !wanted.has(externalVolumeId));
  if (stranger !== undefined)
    return `has snapshot ${stranger.externalId} of volume ${stranger.externalVolumeId}, which is not in the group`;
  if (new Set(snapshots.map(({ externalId }) => externalId)).size < snapshots.length) return "names a snapshot twice";
  const members: GroupMember[] = [];
  for (const member of group.members) {
    const found = snapshots.filter(({ externalVolumeId }) => externalVolumeId === member.externalVolumeId);
    const [made] = found;
    if (made === undefined) return `has no snapshot of volume ${member.externalVolumeId}`;
    if (found.length > 1) return `has ${found.length} snapshots of volume ${member.externalVolumeId}`;
    if (member.externalId !== "" && member.externalId !== made.externalId)
      return `has snapshot ${made.externalId} of volume ${member.externalVolumeId} instead of ${member.externalId}`;
    const { externalId, sizeBytes, cutAt, ready } = made;
    members.push({ ...member, externalId, sizeBytes, cutAt, ready, ...places(made) });
  }
  return members;
};

/**
 * A group is usable only whole. What an incomplete answer names is kept all the same: the group can be deleted by it, and is
 * never forgotten at the backend.
 */
const readGroup = (group: GroupRecord, answer: CutAnswer): Reading<GroupRecord> => {
  if (group.externalId !== "" && group.externalId !== answer.externalId)
    return {
      kind: "contradicts",
      because: `answered with the id ${answer.externalId} for the name that it gave the id ${group.externalId} before`,
    };
  const answeredIds = answer.snapshots.map(({ externalId }) => externalId);
  const members = membersIn(group, answer);
  const named = { ...group, externalId: answer.externalId, pluginVersion: answer.pluginVersion };
  if (typeof members === "string") {
    const because = `answered with a group that ${members}`;
    // Once whole, always whole: the ids that were answered then are the ones to delete by.
    return group.state === "CREATING"
      ? { kind: "partial", record: { ...named, answeredIds }, because }
      : { kind: "contradicts", because };
  }
  if (group.state !== "CREATING" && !sameIds(group.answeredIds, answeredIds))
    return { kind: "contradicts", because: "answered with other snapshots than before" };
  return {
    kind: "fits",
    ready: answer.ready && members.every(({ ready }) => ready),
    record: { ...named, answeredIds, cutAt: answer.cutAt, members },
  };
};

export const readCut = (record: CutRecord, answer: CutAnswer): Reading<CutRecord> =>
  record.kind === "snapshot" ? readSnapshot(record, answer) : readGroup(record, answer);
