import type { AccessMode, AttachmentMode } from "@holdfast/model/access";
import type { Epoch } from "@holdfast/model/epoch";
import type { DockerBook } from "./docker-book.ts";
import type { PluginRegistry } from "./plugin-registry.ts";
import type { WorkloadBook } from "./workload-machine.ts";

export interface VolumeRef {
  readonly namespace: string;
  readonly volume: string;
  /** One per life of the volume's record: the key under which the agent knows it. */
  readonly volumeUid: string;
  /** The plugin's own id; opaque, never part of a path. */
  readonly externalId: string;
  readonly plugin: string;
}

/** What is journalled of a permit: all that an answer or an undo needs, nothing that a driver may treat as a secret. */
export interface PermitFacts {
  readonly claimUid: string;
  readonly workload: string;
  readonly alias: string;
  readonly epoch: Epoch;
  readonly nodeEpoch: number;
  readonly accessMode: AccessMode;
  readonly attachmentMode: AttachmentMode;
  readonly readOnly: boolean;
  readonly fsType: string;
  /** Salted hash of modes, contexts, flags and group: shows that a repeated permit is the same, and tells nothing else. */
  readonly digest: string;
  /** The path given to NodePublishVolume. */
  readonly target: string;
}

/** What tells a file system apart in every mount namespace: its device and the directory in it that is mounted. */
export interface MountMark {
  readonly device: string;
  readonly root: string;
}

/** Why a claim ended without a mount. No text of the plugin: it would outlive the call in the journal. */
export interface MountFailure {
  readonly reason: string;
  readonly method: string;
  readonly code: string;
}

export const stagePhases = ["unstaged", "staging", "unsure", "staged", "unstaging"] as const;
/**
 * - `unstaged`: nothing is there, and nothing is owed.
 * - `staging`: the first call is under way; no earlier one is in doubt.
 * - `unsure`: it may be staged: a call had no certain answer, or the agent or the mount was lost since.
 * - `staged`: the plugin said OK in this life, and nothing was seen since that would contradict it.
 * - `unstaging`: on its way out; only NodeUnstageVolume may follow, behind NodeUnpublishVolume for a claim that goes with it.
 */
export type StagePhase = (typeof stagePhases)[number];

export const claimPhases = ["permitted", "publishing", "unsure", "published", "unpublishing", "gone"] as const;
/** As the phases of the stage, for one publication; `gone`: unpublished and verified, not yet released. */
export type ClaimPhase = (typeof claimPhases)[number];

export interface StageState {
  readonly phase: StagePhase;
  /** False for a plugin without STAGE_UNSTAGE_VOLUME; decided at the first permit and kept until the volume is free. */
  readonly needed: boolean;
  readonly path: string;
  /** Mount ids seen at the staging path after the first Publish that followed the Stage; none before. */
  readonly shown: readonly number[];
  /** What the stage and the targets showed: looked for everywhere before a release. */
  readonly marks: readonly MountMark[];
  /** Mount ids with one of these marks that were there before the first Stage: not ours to wait for. */
  readonly before: readonly number[];
}

export interface HeldClaim {
  readonly facts: PermitFacts;
  readonly phase: ClaimPhase;
  /** Once `released` it never goes back: whoever wants the volume again gets a new claim. */
  readonly goal: "mounted" | "released";
  /** Set when the goal is `released` because the plugin refused: the permit is answered "not mounted" then. */
  readonly failure?: MountFailure;
  /** Of the mount at the target, 0 before it was seen. */
  readonly mountId: number;
}

/** A publication that the journal holds and the host has no more. */
export interface LostClaim {
  readonly ref: VolumeRef;
  readonly claimUid: string;
  readonly epoch: Epoch;
  /** Wall clock, milliseconds. */
  readonly since: number;
  readonly reason: string;
}

/** A released epoch that is above the floor: a permit that carries it comes too late. */
export interface DeadEpoch {
  readonly claimUid: string;
  readonly epoch: Epoch;
  readonly failure?: MountFailure;
  /** No controller is known to have heard of the release: it is told until it answers "forgotten". */
  readonly late: boolean;
}

/** All that the agent knows of one volume: the fold of its journal records, and what was seen since. */
export interface VolumeState {
  readonly ref: VolumeRef;
  readonly floor: Epoch;
  readonly dead: readonly DeadEpoch[];
  readonly stage: StageState;
  readonly claims: Readonly<Record<string, HeldClaim>>;
}

/** What the whole agent promised and was told. */
export interface AgentFacts {
  /** 0 before the first registration. */
  readonly nodeEpoch: number;
  readonly clusterUid: string;
  /** No order of a lower generation is followed. */
  readonly promisedGen: number;
  /** The vetting that this generation was promised to; empty: nobody said. */
  readonly promisedTo: string;
  readonly bootId: string;
  /** The plugin instances that a runner hosts through this agent. */
  readonly plugins: PluginRegistry;
  /** What the runner of this host asked for. */
  readonly workloads: WorkloadBook;
  /** What Docker mounted. */
  readonly docker: DockerBook;
}
