import type { CallUnderWay } from "../domain/call-under-way.ts";
import type { Claim, ClaimState, ClaimTombstone } from "../domain/claim/claim.ts";
import type { Obstacle } from "../domain/claim/grant.ts";
import type { Blocked, LastError } from "../domain/outcome.ts";
import type { BackendCapacity, CapacityQuery } from "../domain/plugin/backend-capacity.ts";
import type {
  ContentSource,
  SecretRefs,
  Segments,
  VolumeCapability,
  VolumePolicy,
  VolumeRecord,
  VolumeRef,
  VolumeState,
} from "../domain/volume/volume.ts";
import type { VolumeUpdate } from "../domain/volume/volume-update.ts";

/** Who asks, and in which trace; both are stored with what is asked. */
export interface Caller {
  readonly who: string;
  /** The RPC, or the reason that the caller gave. */
  readonly why: string;
  readonly traceparent?: string;
}

/** A volume as it was read, with the revision of its record. */
export interface VolumeView {
  readonly volume: VolumeRecord;
  readonly rev: number;
}

/** A claim that lives in its volume, or the tombstone of one that is over. */
export type ClaimView =
  | {
      readonly kind: "living";
      readonly claim: Claim;
      readonly volume: VolumeRecord;
      readonly rev: number;
      /** What it waits for, in one sentence; empty when it waits for nothing but the call under way. */
      readonly waitingFor: string;
    }
  | { readonly kind: "over"; readonly claim: ClaimTombstone };

export interface CreateVolumeInput extends VolumeRef {
  readonly plugin: string;
  readonly capacity: { readonly required: number; readonly limit: number };
  readonly capabilities: readonly VolumeCapability[];
  readonly parameters: Readonly<Record<string, string>>;
  readonly mutableParameters: Readonly<Record<string, string>>;
  readonly topology: { readonly required: readonly Segments[]; readonly preferred: readonly Segments[] };
  readonly contentSource: ContentSource;
  /** Absent = made at once. */
  readonly lateBinding?: boolean;
  readonly secretRefs: SecretRefs;
  /** Values for all families that have no reference. */
  readonly inlineSecrets?: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly policy: VolumePolicy;
  readonly requestId: string;
  /** The claim that brings it, and with which it ends. */
  readonly ephemeral?: { readonly workload: string; readonly alias: string };
}

export interface RegisterVolumeInput extends VolumeRef {
  readonly plugin: string;
  readonly externalId: string;
  readonly capacity: { readonly required: number; readonly limit: number };
  readonly capabilities: readonly VolumeCapability[];
  readonly context: Readonly<Record<string, string>>;
  readonly parameters: Readonly<Record<string, string>>;
  readonly mutableParameters: Readonly<Record<string, string>>;
  readonly accessible: readonly Segments[];
  readonly secretRefs: SecretRefs;
  /** Values for all families that have no reference. */
  readonly inlineSecrets?: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly policy: VolumePolicy;
  readonly requestId: string;
}

export interface UpdateVolumeInput extends VolumeRef {
  readonly update: VolumeUpdate;
  /** 0 = whatever revision it has. */
  readonly expectedRevision: number;
}

/** Storage that stays at its backend without a record; the id is empty when there is none. */
export interface LeftBehind {
  readonly plugin: string;
  readonly externalId: string;
}

export interface DeleteVolumeInput extends VolumeRef {
  /** Empty = whatever life the id has. */
  readonly uid: string;
  readonly requestId: string;
}

export interface ExpandVolumeInput extends VolumeRef {
  readonly capacity: { readonly required: number; readonly limit: number };
  readonly requestId: string;
}

export interface ModifyVolumeInput extends VolumeRef {
  readonly mutableParameters: Readonly<Record<string, string>>;
  readonly requestId: string;
}

/** One volume that a workload asks for. */
export interface ClaimSpec {
  readonly volume: string;
  /** Empty = the volume's id. */
  readonly alias: string;
  /** undefined = the only one that the volume has. */
  readonly capability: VolumeCapability | undefined;
  readonly readOnly: boolean;
  /** The volume that it brings; `volume` is its id. */
  readonly template?: CreateVolumeInput;
}

export interface CreateClaimsInput {
  readonly namespace: string;
  readonly workload: string;
  readonly node: string;
  readonly claims: readonly ClaimSpec[];
  readonly requestId: string;
  /** `deadlineMs` undefined = one hour. */
  readonly queue: { readonly enabled: boolean; readonly deadlineMs: number | undefined };
  /** Workloads whose claims these follow: granted first once those are released. */
  readonly after?: readonly string[];
}

export interface ReleaseClaimsInput {
  readonly namespace: string;
  readonly workload: string;
  /** Empty = every claim of the workload. */
  readonly aliases: readonly string[];
  /** Empty = every life. */
  readonly claimUids: readonly string[];
}

/** Which claims of a workload are meant. */
export interface ClaimSelection extends ReleaseClaimsInput {}

export interface ReconcileWorkloadsInput {
  /** What `listPosition` answered before the list was made. */
  readonly position: string;
  /** Empty = every node; not both are. */
  readonly node: string;
  /** Empty = every namespace. */
  readonly namespace: string;
  /** An empty namespace is that of the input. */
  readonly live: readonly { readonly namespace: string; readonly workload: string }[];
  readonly noneLive: boolean;
  readonly dryRun: boolean;
  readonly reason: string;
}

/** A claim of a workload that its scheduler does not know, as it was found. */
export interface StaleClaim {
  readonly namespace: string;
  readonly volume: string;
  readonly workload: string;
  readonly alias: string;
  readonly uid: string;
  readonly node: string;
  readonly state: ClaimState;
  readonly createdAt: number;
}

export interface ReconciledWorkloads {
  /** The first of those that were released, or would be. */
  readonly released: readonly StaleClaim[];
  readonly releasedCount: number;
  readonly liveCount: number;
  readonly youngerCount: number;
  readonly releasingCount: number;
}

export interface HandOverInput {
  readonly namespace: string;
  readonly fromWorkload: string;
  readonly toWorkload: string;
  readonly toNode: string;
  /** Empty = all claims of `fromWorkload`. */
  readonly aliases: readonly string[];
  readonly deadlineMs: number | undefined;
  readonly requestId: string;
}

export interface GetClaimInput {
  readonly namespace: string;
  readonly volume: string;
  readonly workload: string;
  readonly alias: string;
  /** Empty = the newest life. */
  readonly uid: string;
}

/** Empty fields do not filter. */
export interface VolumeFilter {
  readonly namespace: string;
  readonly plugin: string;
  readonly node: string;
  readonly states: readonly VolumeState[];
  readonly blocked: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly idPrefix: string;
}

/** Empty fields do not filter. Claims that are over are listed only for a workload, or when a final state is asked for. */
export interface ClaimFilter {
  readonly namespace: string;
  readonly volume: string;
  readonly workload: string;
  readonly node: string;
  readonly plugin: string;
  readonly states: readonly ClaimState[];
  readonly blocked: boolean;
}

export interface PageInput {
  readonly size: number;
  /** What the page before answered as `next`; undefined = from the start. */
  readonly after: string | undefined;
  /** Aborted when nobody waits for the page any more: no further read is made for it. */
  readonly signal?: AbortSignal;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | undefined;
}

/** One claim's part of an explanation. */
export interface ClaimExplanation {
  readonly claim: Claim;
  /** The step under way, for example "NodeStageVolume and NodePublishVolume on node-7". */
  readonly step: string;
  readonly waitingFor: string;
  /** Who stands in its way. */
  readonly holder: string;
  readonly obstacle: Obstacle["reason"] | undefined;
  readonly attempts: number;
  readonly nextTry: number | undefined;
  readonly lastError: LastError | undefined;
  readonly blocked: Blocked | undefined;
  /** The call that it waits for, once that has lasted for a while. */
  readonly call: CallUnderWay | undefined;
  readonly traceId: string;
}

export interface AttachmentExplanation {
  readonly node: string;
  readonly state: string;
  /** What keeps it, or what it waits for. */
  readonly because: string;
  readonly verificationScope: "host" | "own-namespace" | undefined;
}

/** How a volume stands, as data; the API turns it into messages. */
export interface VolumeExplanation extends VolumeView {
  readonly claims: readonly ClaimExplanation[];
  readonly attachments: readonly AttachmentExplanation[];
  /** Plain sentences, the most important first. */
  readonly findings: readonly string[];
  /** Commands that would help, in the order to try them; empty when nothing needs to be done. */
  readonly nextActions: readonly string[];
}

/** What API handlers and the link to the agents call. All reject with HoldfastError and the reasons of docs/errors.md. */
export interface Commands {
  createVolume(input: CreateVolumeInput, caller: Caller): Promise<VolumeView>;
  registerVolume(input: RegisterVolumeInput, caller: Caller): Promise<VolumeView>;
  /** The signal ends the question that may have to be put to the plugin. */
  updateVolume(input: UpdateVolumeInput, caller: Caller, signal: AbortSignal): Promise<VolumeView>;
  deregisterVolume(input: DeleteVolumeInput, caller: Caller): Promise<LeftBehind>;
  /** undefined = it is gone. */
  deleteVolume(input: DeleteVolumeInput, caller: Caller): Promise<VolumeView | undefined>;
  expandVolume(input: ExpandVolumeInput, caller: Caller): Promise<VolumeView>;
  modifyVolume(input: ModifyVolumeInput, caller: Caller): Promise<VolumeView>;
  getVolume(ref: VolumeRef): Promise<VolumeView>;
  listVolumes(filter: VolumeFilter, page: PageInput): Promise<Page<VolumeView>>;
  getCapacity(query: CapacityQuery): Promise<BackendCapacity>;
  explainVolume(ref: VolumeRef): Promise<VolumeExplanation>;
  /** In the order of the request. */
  createClaims(input: CreateClaimsInput, caller: Caller): Promise<readonly ClaimView[]>;
  releaseClaims(input: ReleaseClaimsInput, caller: Caller): Promise<readonly ClaimView[]>;
  /** Now, in the order of all claims. */
  listPosition(): Promise<string>;
  reconcileWorkloads(input: ReconcileWorkloadsInput, caller: Caller, signal: AbortSignal): Promise<ReconciledWorkloads>;
  handOver(input: HandOverInput, caller: Caller): Promise<readonly ClaimView[]>;
  getClaim(input: GetClaimInput): Promise<ClaimView>;
  listClaims(filter: ClaimFilter, page: PageInput): Promise<Page<ClaimView>>;
  /** The claims of a workload as they stand, newest life of each alias; with uids exactly those lives. For WaitClaims. */
  selectClaims(selection: ClaimSelection): Promise<readonly ClaimView[]>;
  /** How these very lives stand now, as this process knows it; those that ended since, as their tombstones say. */
  claimsNow(views: readonly ClaimView[]): Promise<readonly ClaimView[]>;
}
