/** What the workloads need of controllers: the claims behind their volumes, and how those are told. */
import type { AccessMode, AttachmentMode } from "@holdfast/model/access";
import type { Epoch } from "@holdfast/model/epoch";
import type { WorkloadName } from "../domain/workload-machine.ts";

/** A VolumeTemplate in base64, its maps in order: the same content is the same text. */
export type Template = string;

/** How a volume is asked for; lives as long as the call that carries it. */
export interface WantedClaim {
  readonly alias: string;
  readonly volume: string;
  readonly readOnly: boolean;
  readonly capability:
    | {
        readonly accessMode: AccessMode;
        readonly attachmentMode: AttachmentMode;
        readonly fsType: string;
        readonly mountFlags: readonly string[];
        readonly volumeMountGroup: string;
      }
    | undefined;
  /** Of the volume that it brings, whose id `volume` is: the message of its runner, which only a controller reads. */
  readonly template?: Template;
}

export type ClaimPhaseSeen =
  | "QUEUED"
  | "ATTACHING"
  | "OFFERED"
  | "ACTIVE"
  | "RELEASING"
  | "DETACHING"
  | "RELEASED"
  | "FAILED"
  | "FENCED";

export interface BlockSeen {
  readonly since: number;
  readonly reason: string;
  readonly message: string;
  readonly missingProof: string;
  readonly clearWith: string;
}

export interface FailureSeen {
  readonly reason: string;
  readonly message: string;
  readonly method: string;
  readonly code: string;
  readonly at: number;
}

/** A claim of a workload: as a controller tells it, or as this host knows it. */
export interface ClaimSeen extends WorkloadName {
  readonly uid: string;
  readonly alias: string;
  readonly volume: string;
  readonly state: ClaimPhaseSeen;
  readonly accessMode: AccessMode;
  readonly attachmentMode: AttachmentMode;
  readonly readOnly: boolean;
  readonly fsType: string;
  readonly epoch?: Epoch;
  readonly hostPath: string;
  readonly device?: DeviceSeen;
  readonly waitingFor: string;
  readonly degradedSince?: number;
  readonly blocked?: BlockSeen;
  readonly failure?: FailureSeen;
}

export interface DeviceSeen {
  readonly path: string;
  readonly major: number;
  readonly minor: number;
}

/**
 * The claims of workloads on this node, as controllers keep them. Rejects with CONTROLLER_UNAVAILABLE when none of them
 * answered: what was asked may have happened then. Any other rejection is a refusal, and nothing was made.
 */
export interface ControllerClaims {
  /** All or nothing; answered as soon as they are on record, in the order of `claims`. */
  request(
    order: WorkloadName & {
      readonly claims: readonly WantedClaim[];
      readonly requestId: string;
      readonly after: readonly string[];
      readonly queued?: boolean;
      /** Of the scheduler; empty: none. */
      readonly ticket: string;
    },
    signal: AbortSignal,
  ): Promise<readonly ClaimSeen[]>;
  /** How these lives stand; answered when they have settled, or one is blocked, or after a while. Makes nothing. */
  watch(
    order: WorkloadName & { readonly claimUids: readonly string[] },
    signal: AbortSignal,
  ): Promise<readonly ClaimSeen[]>;
  /** Wants these claims gone; without uids all of the workload on this node, which may need a ticket. */
  release(
    order: WorkloadName & { readonly claimUids: readonly string[]; readonly ticket: string },
    signal: AbortSignal,
  ): Promise<readonly ClaimSeen[]>;
  /** Rejects where all of the workload may not be wanted gone. Releases nothing. */
  mayRelease(order: WorkloadName & { readonly ticket: string }, signal: AbortSignal): Promise<void>;
}
