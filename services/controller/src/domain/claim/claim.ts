import type { AccessMode, AttachmentMode } from "@holdfast/model/access";
import type { Epoch } from "@holdfast/model/epoch";
import type { VolumeUse } from "@holdfast/model/volume-use";
import type { CallUnderWay } from "../call-under-way.ts";
import type { Attempts, Blocked, Ending } from "../outcome.ts";

export const claimStates = [
  "QUEUED",
  "ATTACHING",
  "OFFERED",
  "ACTIVE",
  "RELEASING",
  "DETACHING",
  "RELEASED",
  "FAILED",
  "FENCED",
] as const;

export type ClaimState = (typeof claimStates)[number];

/** States that are over: the claim is kept as a tombstone only. */
export type FinalClaimState = "RELEASED" | "FAILED" | "FENCED";

export interface ClaimKey {
  readonly workload: string;
  readonly alias: string;
}

/** One member of a set that is granted all or nothing. */
export interface SetMember {
  readonly namespace: string;
  readonly volume: string;
  readonly uid: string;
}

export interface DeviceSize {
  readonly bytes: number;
  /** What was asked for when it was measured; growth that came later says nothing of it. */
  readonly wanted: number;
}

export interface BlockDevice {
  readonly major: number;
  readonly minor: number;
  /** Absent: an agent of an earlier version, or the volume was being grown. */
  readonly size?: DeviceSize;
}

/** What the agent reported about the publication. */
export interface Publication {
  readonly hostPath: string;
  readonly mountId: number;
  readonly device?: BlockDevice;
  /** The boot of the node in which it was made; in another one the mount is gone. */
  readonly bootId?: string;
  /** The journal of the agent that made it; another journal does not hold it. */
  readonly journalUid?: string;
}

export interface Claim extends ClaimKey, VolumeUse {
  /** One per life of the key; permits, releases and tombstones speak of it. */
  readonly uid: string;
  readonly node: string;
  readonly readOnly: boolean;
  readonly state: ClaimState;
  /** What is wanted. The reconciler alone moves the state towards it. */
  readonly goal: "active" | "released";
  /** Set by the grant. */
  readonly epoch?: Epoch;
  /** Of the node when the claim was granted. Absent before the grant, and in older records. */
  readonly nodeEpoch?: number;
  /** While ATTACHING: the intent whose answer may have let the permit leave before it was stored. See permit-ahead.ts. */
  readonly ahead?: string;
  /** Orders the queue: the same order on every volume, so that two sets cannot wait for each other. */
  readonly ticket: string;
  /** QUEUED only until here, then FAILED(QUEUE_TIMEOUT). */
  readonly queueDeadline: number;
  /** Hand-over: granted first once this workload's claim is gone. */
  readonly after?: string;
  readonly requestId: string;
  /** Every member of the set, this one included. */
  readonly set: readonly SetMember[];
  /** The trace of the request that set the goal, and when; drives within ten minutes are its children. */
  readonly trace?: { readonly parent: string; readonly at: number };
  readonly publication?: Publication;
  readonly degradedSince?: number;
  /** What the agent said when it was lost. */
  readonly degradedReason?: string;
  /** As the agent says: its mount does not answer, or its publication cannot be repeated. */
  readonly ailing?: Blocked;
  /** As the agent says: a call of a plugin on its node. */
  readonly call?: CallUnderWay;
  readonly attempts: Attempts;
  readonly blocked?: Blocked;
  /** Why it ends FAILED, once its release is over. */
  readonly failure?: Ending;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** When the present state began. */
  readonly stateSince: number;
  readonly activeAt?: number;
}

/** Why the claim cannot go on by itself: what its step was answered, or else what its mount does. */
export const blockOfClaim = ({ blocked, ailing }: Pick<Claim, "blocked" | "ailing">): Blocked | undefined =>
  blocked ?? ailing;

/** Since when its workload cannot use what is mounted, and why. */
export const degradedOf = ({
  degradedSince,
  degradedReason,
  ailing,
}: Pick<Claim, "degradedSince" | "degradedReason" | "ailing">):
  | { readonly since: number; readonly reason: string }
  | undefined => {
  if (degradedSince !== undefined) return { since: degradedSince, reason: degradedReason ?? "MOUNT_MISSING" };
  return ailing && { since: ailing.since, reason: ailing.reason };
};

/** Kept for seven days, or for ever when the claim ended on a person's word instead of the agent's, so that a repeated release or a late question gets a true answer. */
export interface ClaimTombstone extends ClaimKey {
  readonly uid: string;
  readonly namespace: string;
  readonly volume: string;
  /** Absent in older records. */
  readonly plugin?: string;
  readonly node: string;
  readonly accessMode: AccessMode;
  readonly attachmentMode: AttachmentMode;
  readonly readOnly: boolean;
  readonly state: FinalClaimState;
  readonly failure?: Ending;
  readonly requestId: string;
  readonly createdAt: number;
  readonly endedAt: number;
}
