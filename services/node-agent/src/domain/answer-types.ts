import type { Epoch } from "@holdfast/model/epoch";
import type { VolumeHealthEntry } from "@holdfast/model/health";
import type { Refusal } from "./judge-order.ts";
import type { Leftover } from "./mounts.ts";
import type { MountFailure, VolumeState } from "./types.ts";

/** Why a person has to do something first. */
export type AgentBlockReason =
  | "NOT_AT_BACKEND"
  | "INCOMPATIBLE"
  | "CREDENTIALS_REFUSED"
  | "PLUGIN_REFUSED"
  | "MOUNT_HUNG"
  | "MOUNT_DEAD"
  | "MOUNT_NOT_SEEN"
  | "MOUNT_HELD"
  | "STILL_MOUNTED"
  | "ORPHAN_MOUNT"
  | "HOST_PATH_UNSAFE"
  | "PERMIT_CHANGED"
  | "REPUBLISH_FAILING"
  | "JOURNAL_DAMAGED";

interface Stop {
  readonly message: string;
  readonly method: string;
  readonly code: string;
  readonly holder?: Leftover;
}

/** Asking again will not help by itself. */
export interface BlockingHalt extends Stop {
  readonly reason: AgentBlockReason;
  readonly blocked: { readonly missingProof: string; readonly clearWith: string };
}

interface PassingHalt extends Stop {
  /** A word of docs/errors.md, or the name of a gRPC code when the plugin's answer says all there is to say. */
  readonly reason: string;
  readonly blocked?: undefined;
}

/** Why the agent stopped on its way. The debt stays in the journal; the same message brings it on. */
export type Halt = BlockingHalt | PassingHalt;

export interface Published {
  readonly kind: "published";
  readonly hostPath: string;
  readonly mountId: number;
  readonly epoch: Epoch;
  /** What has become of the growth that the permit owed. */
  readonly expansion?: ExpandResult;
  readonly device?: {
    readonly path: string;
    readonly major: number;
    readonly minor: number;
    /** Absent: the kernel does not say. */
    readonly sizeBytes?: bigint;
  };
}

export type PublishResult =
  | Published
  /** RELEASED(e) is journalled: nothing of it is mounted. */
  | ({
      readonly kind: "not-mounted";
      readonly failure: MountFailure;
      readonly message: string;
      readonly epoch: Epoch;
    } & AskedHealth)
  | ({ readonly kind: "uncertain"; readonly halt: Halt } & AskedHealth)
  | Refusal;

/** What the plugin said of the volume after the failure, when it was asked and answered. */
interface AskedHealth {
  readonly health?: readonly VolumeHealthEntry[];
}

export type ReleaseResult =
  | {
      readonly kind: "released";
      readonly epoch: Epoch;
      /** What the agent unmounted itself, since the plugin had left it. */
      readonly unmounted?: readonly string[];
    }
  | { readonly kind: "pending"; readonly halt: Halt }
  | Refusal;

export type ExpandResult =
  /** 0 when the plugin does not say. */
  | {
      readonly kind: "expanded";
      readonly capacityBytes: bigint;
      /** Of the block device after the call. Absent: it is none, or the kernel does not say. */
      readonly deviceBytes?: bigint;
    }
  | { readonly kind: "not-expanded"; readonly failure: MountFailure; readonly message: string }
  | { readonly kind: "uncertain"; readonly halt: Halt }
  | Refusal;

export interface Orphan {
  readonly path: string;
  readonly mountId: number;
}

export interface Inventory {
  readonly volumes: readonly { readonly state: VolumeState; readonly halt?: Halt }[];
  readonly orphans: readonly Orphan[];
}
