import type { CallBar, CallSite } from "../open-call.ts";
import type { Attempts, Blocked, Ending } from "../outcome.ts";
import { type Segments, type VolumeRef, volumeKey } from "../volume/volume.ts";

/** What cuts are: one volume at a point in time, or several at the same one. Both live by one machine. */

export const cutStates = ["CREATING", "CUT", "READY", "DELETING", "FAILED"] as const;
export type CutState = (typeof cutStates)[number];

export const cutKinds = ["snapshot", "group"] as const;
export type CutKind = (typeof cutKinds)[number];

/** Calls that may need their own secret; what is absent falls back to `create`. */
export const snapshotSecretFamilies = ["create", "delete", "list", "metadata"] as const;
export type SnapshotSecretFamily = (typeof snapshotSecretFamilies)[number];
export type SnapshotSecretRefs = Readonly<Partial<Record<SnapshotSecretFamily, string>>>;

/** The call in progress at the backend, durable before it leaves (I4). */
export interface CutIntent extends CallSite {
  readonly op: "create" | "delete";
}

export interface CutBar extends CallBar {
  readonly op: CutIntent["op"];
}

interface CutBase extends VolumeRef {
  readonly uid: string;
  /** Sent to the plugin: chosen once, stored before the call. */
  readonly name: string;
  /** The plugin's id; empty until it named one. */
  readonly externalId: string;
  readonly plugin: string;
  readonly pluginVersion: string;
  /** Where its source was when it was cut; absent = everywhere, or not known. */
  readonly accessible?: readonly Segments[];
  readonly parameters: Readonly<Record<string, string>>;
  readonly secretRefs: SnapshotSecretRefs;
  readonly labels: Readonly<Record<string, string>>;
  /** The point in time by the backend's clock; 0 = not known yet. */
  readonly cutAt: number;
  readonly state: CutState;
  readonly goal: "present" | "absent";
  /** While it is CUT it is that of the next question whether it is ready, which cuts it anew where there is none. */
  readonly intent?: CutIntent;
  /** Calls that were overtaken, of a group in its own record alone. A record that was deleted and has one stays for it, without an intent. */
  readonly bars: readonly CutBar[];
  /** Until when a call that cuts and had no answer may still arrive, also behind a delete. */
  readonly lateUntil?: number;
  /** DELETING from CUT: the question whether it is ready may have no answer yet, and holds on to its source until a delete has left. */
  readonly asked?: true;
  readonly attempts: Attempts;
  /** How often the plugin answered that it is cut and not ready. */
  readonly polls: number;
  readonly blocked?: Blocked;
  readonly failure?: Ending;
  readonly requestId: string;
  readonly trace?: { readonly parent: string; readonly at: number };
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly stateSince: number;
  readonly changedBy: { readonly who: string; readonly why: string };
}

export interface SnapshotRecord extends CutBase {
  readonly kind: "snapshot";
  readonly volume: string;
  readonly volumeUid: string;
  /** Frozen: what is repeated, or undone, needs no other record. */
  readonly externalVolumeId: string;
  /** The group that it came with and goes with; its record then follows the group's. Empty when it was cut alone. */
  readonly group: string;
  /** The plugin's id of a group that it says the snapshot belongs to. */
  readonly externalGroupId: string;
  /** What a volume made from it needs at least; 0 = not known. */
  readonly sizeBytes: number;
  /** Where it was asked to be usable, in one place at least; frozen with the name. Absent = the plugin chooses. */
  readonly askedPlaces?: readonly Segments[];
  /** Where volumes can be made from it, as the plugin says; absent = everywhere, or not known. */
  readonly usableFrom?: readonly Segments[];
}

export interface GroupMember {
  readonly snapshot: string;
  readonly uid: string;
  readonly volume: string;
  readonly volumeUid: string;
  readonly externalVolumeId: string;
  /** Empty until the plugin named it. */
  readonly externalId: string;
  readonly sizeBytes: number;
  readonly cutAt: number;
  readonly ready: boolean;
  /** As of SnapshotRecord. */
  readonly usableFrom?: readonly Segments[];
}

export interface GroupRecord extends CutBase {
  readonly kind: "group";
  readonly members: readonly GroupMember[];
  /** The ids of its snapshots exactly as the plugin last answered them: what its delete has to carry. */
  readonly answeredIds: readonly string[];
}

export type CutRecord = SnapshotRecord | GroupRecord;

export interface CutRef extends VolumeRef {
  readonly kind: CutKind;
}

/** One text for what is worked on, waited for and logged. */
export const cutKey = ({ kind, ...ref }: CutRef): string => `${kind}:${volumeKey(ref)}`;

export const refOfCutKey = (key: string): CutRef => {
  const [colon, slash] = [key.indexOf(":"), key.indexOf("/")];
  return {
    kind: key.slice(0, colon) === "group" ? "group" : "snapshot",
    namespace: key.slice(colon + 1, slash),
    id: key.slice(slash + 1),
  };
};

/** The states in which the plugin may still need the volume that is cut: it is neither deleted nor forgotten then. */
export const pinsSource: Readonly<Record<CutState, boolean>> = {
  CREATING: true,
  CUT: true,
  READY: false,
  DELETING: false,
  FAILED: false,
};

export const secretFor = (refs: SnapshotSecretRefs, family: SnapshotSecretFamily): string | undefined =>
  refs[family] ?? refs.create;

/** The records of a group's snapshots: nothing but views of the group, stored with it in the same step. */
export const membersOf = (group: GroupRecord): readonly SnapshotRecord[] =>
  group.members.map((member) => {
    const { members: _m, answeredIds: _a, intent: _i, kind: _k, failure, ...shared } = group;
    return {
      ...shared,
      bars: [],
      kind: "snapshot",
      id: member.snapshot,
      uid: member.uid,
      externalId: member.externalId,
      volume: member.volume,
      volumeUid: member.volumeUid,
      externalVolumeId: member.externalVolumeId,
      group: group.id,
      externalGroupId: group.externalId,
      sizeBytes: member.sizeBytes,
      ...(member.usableFrom === undefined ? {} : { usableFrom: member.usableFrom }),
      cutAt: member.cutAt,
      state: group.state === "CUT" && member.ready ? "READY" : group.state,
      ...(failure === undefined ? {} : { failure }),
    };
  });
