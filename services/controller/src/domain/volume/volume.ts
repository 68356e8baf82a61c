import type { Epoch } from "@holdfast/model/epoch";
import type { VolumeUse } from "@holdfast/model/volume-use";
import type { Claim } from "../claim/claim.ts";
import type { NodeLife } from "../node/node-life.ts";
import type { CallBar, CallSite } from "../open-call.ts";
import type { Attempts, Blocked, Ending } from "../outcome.ts";
import type { Expansion, Growth } from "../size/expansion.ts";
import type { StoredCondition } from "./condition.ts";
import type { Modification } from "./modification.ts";
import type { StoredHealth } from "./volume-health.ts";

export const volumeStates = ["CREATING", "AVAILABLE", "DELETING", "FAILED"] as const;
export type VolumeState = (typeof volumeStates)[number];

export interface VolumeRef {
  readonly namespace: string;
  readonly id: string;
}

/** Nothing of its storage is left at the backend. */
export const withoutStorage = (volume: VolumeRecord): VolumeRecord => ({
  ...volume,
  externalId: "",
  context: {},
  capacity: { ...volume.capacity, actual: 0 },
  topology: { ...volume.topology, accessible: [] },
});

export const volumeKey = (ref: VolumeRef): string => `${ref.namespace}/${ref.id}`;

export type VolumeCapability = VolumeUse;

export type Segments = Readonly<Record<string, string>>;

export interface VolumeTopology {
  readonly required: readonly Segments[];
  readonly preferred: readonly Segments[];
  /** What the plugin answered: nodes outside cannot have the volume. */
  readonly accessible: readonly Segments[];
}

/** Families of calls that may need their own secret; values are references such as `file:/etc/holdfast/s.json`. */
export const secretFamilies = [
  "create",
  "delete",
  "controllerPublish",
  "nodeStage",
  "nodePublish",
  "controllerExpand",
  "nodeExpand",
  "modify",
  "snapshot",
  "list",
] as const;
export type SecretFamily = (typeof secretFamilies)[number];
export type SecretRefs = Readonly<Partial<Record<SecretFamily, string>>>;

export type ContentSource =
  | { readonly kind: "none" }
  | { readonly kind: "snapshot"; readonly id: string }
  | { readonly kind: "volume"; readonly id: string };

/**
 * What a volume is made from, frozen before the first call: a repeat, or an undo, needs no other record. While the volume is being
 * made its source is held by it and cannot be deleted.
 */
export interface VolumeSource {
  readonly uid: string;
  readonly externalId: string;
  /** What the copy needs at least; 0 = not known. */
  readonly sizeBytes: number;
  /** Where the source is; absent = everywhere, or not known. */
  readonly accessible?: readonly Segments[];
  /** Where a volume can be made from it, as its plugin said of the snapshot; absent = everywhere, or not known. */
  readonly usableFrom?: readonly Segments[];
}

/** The set that the volume was made in, from the snapshots of one group; see group-restore.ts. */
export interface GroupRestore {
  readonly uid: string;
  readonly group: string;
  /** Every volume of the set: what it was made from the snapshot of, and its id. */
  readonly members: readonly { readonly source: string; readonly id: string }[];
  /** There was a claim of this volume. */
  readonly claimed?: true;
  /** This volume has failed: whether the others were deleted for it. */
  readonly end?: "undone" | "kept";
}

export interface VolumePolicy {
  readonly reclaim: "retain" | "delete";
  readonly nodeLoss: "wait" | "fence";
  readonly requiresRepublish: boolean;
  readonly identityTokens: readonly { readonly audience: string; readonly ttlSeconds: number }[];
}

/** Volume × node at the backend. Holds all that its undo needs, so a release needs nothing but this record. */
export interface Attachment extends VolumeUse {
  readonly node: string;
  readonly state: "ATTACHING" | "ATTACHED" | "DETACHING";
  /** The plugin's name for the node, copied at the grant. */
  readonly nodeId: string;
  /** False for plugins without ControllerPublish: nothing is called, the record still says who has it. */
  readonly needsCalls: boolean;
  readonly readOnly: boolean;
  /** Of a mode with one node that writes: this is the one, whether or not its writer is still there. */
  readonly forWriter?: true;
  readonly publishContext: Readonly<Record<string, string>>;
  readonly secretRef?: string;
  readonly pluginVersion: string;
  readonly nodeEpoch: number;
  /** The machine that was the node at the grant: it alone can show that it let go. */
  readonly machineId?: string;
  readonly owed?: OwedCall;
  readonly paused?: PausedAttach;
  /** DETACHING, and a call that attaches had no answer: until then it may still be under way, and no absence proves a detach (I5). */
  readonly lateAttachUntil?: number;
}

/** ATTACHING, refused for now and without the volume's one call until its next try; everything else ATTACHING has the intent. */
export interface PausedAttach {
  /** Nodes whose attachments the refusal is about, as the record had them: tried again as soon as one of them is gone. */
  readonly behind: readonly string[];
  /** As of an intent: an attempt had no certain answer, and a later refusal does not prove that nothing happened. */
  readonly uncertainSince?: number;
}

/**
 * A call that an attachment is owed for its own sake, not for a claim's: it was found at the backend, is nobody's, and its removal
 * was approved; the backend does not show it any more, and it is made again; or a call that was overtaken may have made it.
 */
export interface OwedCall {
  readonly why: "orphan" | "missing" | "late";
  readonly since: number;
  readonly attempts: Attempts;
  readonly blocked?: Blocked;
}

/** The one call in progress at the backend, durable before it leaves (I4). */
export interface Intent extends CallSite {
  readonly op: "create" | "validate" | "delete" | "attach" | "detach" | "expand" | "modify";
  readonly node?: string;
  readonly epoch: Epoch;
}

/** The overtaken call of a volume, with what its repeat or its undo needs. */
export interface Bar extends CallBar {
  readonly op: Exclude<Intent["op"], "validate">;
  /** Of an attach or detach; empty for the others. */
  readonly node: string;
  /** The pair as it was then, with all that the undo of an attach needs; absent for calls that concern no node. */
  readonly attachment?: Attachment;
  /** What a create, an expand or a modify asked for. */
  readonly size?: Expansion["target"];
  /** An expand that the plugin makes only for a volume that no node has. */
  readonly onlyUnused?: true;
  readonly parameters?: Modification["target"];
}

/**
 * A grant that an agent has journalled and the store has lost. It is left alone, and nothing more of the volume is granted until the
 * agent holds it no more.
 */
export interface ForeignHold {
  readonly node: string;
  readonly claimUid: string;
  readonly workload: string;
  readonly alias: string;
  readonly epoch: Epoch;
  readonly since: number;
  /** The life of the node that told it: no other life that may go on beside that one can say that it is over. Absent in older records. */
  readonly toldBy?: NodeLife;
}

export interface VolumeBinding {
  readonly node: string;
  readonly place: Segments;
  /** There was no room: whatever an attempt without answer may have made there is deleted, and another place is chosen then. */
  readonly undo?: true;
}

export interface VolumeRecord extends VolumeRef {
  readonly uid: string;
  /** Sent to CreateVolume: chosen once, stored before the call. Empty for a registered volume, which nobody made here. */
  readonly name: string;
  readonly externalId: string;
  readonly plugin: string;
  readonly pluginVersion: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly mutableParameters: Readonly<Record<string, string>>;
  readonly capabilities: readonly VolumeCapability[];
  /** Bytes; 0 = not given or not known. */
  readonly capacity: { readonly required: number; readonly limit: number; readonly actual: number };
  readonly topology: VolumeTopology;
  readonly contentSource: ContentSource;
  /** Made for the node of its first claim; `node` is empty until there was one. Absent = made at once. */
  readonly binding?: VolumeBinding;
  readonly source?: VolumeSource;
  /** The place of the instance that makes it, chosen before its first call; only of a plugin whose instances reach their own places. */
  readonly home?: Segments;
  readonly context: Readonly<Record<string, string>>;
  readonly secretRefs: SecretRefs;
  readonly labels: Readonly<Record<string, string>>;
  readonly policy: VolumePolicy;
  readonly state: VolumeState;
  readonly goal: "present" | "absent";
  readonly epoch: Epoch;
  readonly claims: Readonly<Record<string, Claim>>;
  readonly attachments: Readonly<Record<string, Attachment>>;
  readonly bars: readonly Bar[];
  /** What agents hold of it that the store does not know; absent = nothing. */
  readonly foreign?: readonly ForeignHold[];
  readonly intent?: Intent;
  readonly attempts: Attempts;
  readonly blocked?: Blocked;
  readonly failure?: Ending;
  /** A wish to be bigger, until the backend has answered it. */
  readonly expansion?: Expansion;
  /** The backend has grown it, and nodes have to follow. */
  readonly growth?: Growth;
  /** The worst that was said of it; absent while nobody says that it is abnormal. */
  readonly condition?: StoredCondition;
  /** What is said to be wrong with it, by side; absent while nobody knows of anything adverse. */
  readonly health?: StoredHealth;
  /** Mutable parameters that are to change. */
  readonly modification?: Modification;
  /** A claim brought it, and it ends with its claims; absent = it stays until somebody deletes it. */
  readonly ephemeral?: { readonly workload: string; readonly alias: string; readonly claimed?: true };
  /** Made in one set with others; absent = alone. */
  readonly restore?: GroupRestore;
  readonly requestId: string;
  /** A person's word, at its adoption, that the storage is nobody else's, wherever the backend shows it. */
  readonly vouched?: true;
  /** Digest of what it was asked for, so that the same request is known again after the volume was changed. */
  readonly asked?: string;
  readonly trace?: { readonly parent: string; readonly at: number };
  readonly createdAt: number;
  readonly updatedAt: number;
  /** When the present state began. */
  readonly stateSince: number;
  readonly changedBy: { readonly who: string; readonly why: string };
}
