import type { Epoch } from "@holdfast/model/epoch";
import type { DockerRecord } from "./docker-book.ts";
import type { RegistryChange } from "./plugin-registry.ts";
import type { MountFailure, MountMark, PermitFacts, VolumeRef } from "./types.ts";
import type { WorkloadRecord } from "./workload-machine.ts";

/** Written before the effect that it announces, or before the answer that it proves; what it outlives by then says record-survival.ts. */
export type VolumeRecord =
  | {
      readonly type: "permit";
      readonly ref: VolumeRef;
      readonly facts: PermitFacts;
      readonly floor: Epoch;
      readonly stageNeeded: boolean;
      readonly stagePath: string;
      /** Its own mounts are there already, from a journal that was lost: whatever is refused from now on, they have to go. */
      readonly found: { readonly stage: boolean; readonly target: boolean };
    }
  /** Mounts of a claim whose permit this journal never saw are taken over, to be undone. */
  | {
      readonly type: "adopted";
      readonly ref: VolumeRef;
      readonly facts: PermitFacts;
      readonly stageNeeded: boolean;
      readonly stagePath: string;
      readonly marks: readonly MountMark[];
      readonly before: readonly number[];
    }
  | { readonly type: "stage-intent" }
  | {
      readonly type: "staged";
      readonly shown: readonly number[];
      readonly marks: readonly MountMark[];
      readonly before: readonly number[];
    }
  | { readonly type: "stage-refused" }
  | { readonly type: "publish-intent"; readonly claimUid: string }
  | {
      readonly type: "published";
      readonly claimUid: string;
      readonly mountId: number;
      /** At the staging path. Absent in what an earlier version wrote, which told it with `staged`. */
      readonly shown?: readonly number[];
      readonly marks: readonly MountMark[];
      readonly before: readonly number[];
    }
  | { readonly type: "publish-refused"; readonly claimUid: string }
  | { readonly type: "release-intent"; readonly claimUid: string; readonly failure?: MountFailure }
  | { readonly type: "unpublish-intent"; readonly claimUid: string }
  | { readonly type: "unpublished"; readonly claimUid: string }
  | { readonly type: "unstage-intent" }
  | { readonly type: "unstaged" }
  /** RELEASED(e): the proof. `epoch` is the one asked for, which may be newer than the one that was held. */
  | { readonly type: "released"; readonly claimUid: string; readonly epoch: Epoch; readonly late: boolean }
  /** RELEASED(e) for a permit that never came. */
  | {
      readonly type: "dead";
      readonly ref: VolumeRef;
      readonly claimUid: string;
      readonly epoch: Epoch;
      readonly late: boolean;
    }
  | { readonly type: "forgotten"; readonly claimUid: string };

/** What is only seen: after a restart it is not known any more, and assumed to be the worst. */
export type VolumeSighting =
  | { readonly type: "stage-unknown" }
  | { readonly type: "unstage-unknown" }
  | { readonly type: "publish-unknown"; readonly claimUid: string }
  | { readonly type: "unpublish-unknown"; readonly claimUid: string }
  /** A publication that the journal holds is not in the mount table. */
  | { readonly type: "mount-lost"; readonly claimUid: string }
  /** The agent came back. `stageSeen`: same boot, and what Stage had shown is still there. */
  | { readonly type: "recovered"; readonly stageSeen: boolean; readonly sameBoot: boolean };

export type VolumeEvent = VolumeRecord | VolumeSighting;

/** About the agent as a whole. */
export type AgentRecord =
  | { readonly type: "node-epoch"; readonly nodeEpoch: number; readonly clusterUid: string }
  | { readonly type: "promised-gen"; readonly gen: number /** Absent: nobody said. */; readonly uid?: string }
  | { readonly type: "boot"; readonly bootId: string }
  | { readonly type: "plugin"; readonly change: RegistryChange }
  | { readonly type: "workload"; readonly record: WorkloadRecord }
  | { readonly type: "docker"; readonly record: DockerRecord };
