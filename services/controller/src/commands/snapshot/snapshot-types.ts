import type {
  CutRef,
  CutState,
  GroupRecord,
  SnapshotRecord,
  SnapshotSecretRefs,
} from "../../domain/snapshot/snapshot.ts";
import type { MadeSnapshot } from "../../domain/snapshot/snapshot-answer.ts";
import type { BlockMetadata } from "../../domain/snapshot/snapshot-types.ts";
import type { Segments, VolumeRef } from "../../domain/volume/volume.ts";
import type { Caller, CreateVolumeInput, Page, PageInput, VolumeView } from "../model.ts";

export interface SnapshotView {
  readonly record: SnapshotRecord;
  readonly rev: number;
}

export interface GroupView {
  readonly record: GroupRecord;
  readonly rev: number;
  /** In the order of the volumes. */
  readonly snapshots: readonly SnapshotView[];
}

interface CutInput extends VolumeRef {
  readonly parameters: Readonly<Record<string, string>>;
  /** undefined: as the volume says. */
  readonly secretRefs: SnapshotSecretRefs | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly requestId: string;
}

export interface CreateSnapshotInput extends CutInput {
  readonly volume: string;
  /** Where it has to be usable, in one place at least; empty = the plugin chooses. */
  readonly topology: readonly Segments[];
}

export interface CreateGroupInput extends CutInput {
  readonly members: readonly { readonly volume: string; readonly snapshot: string }[];
}

export interface DeleteCutInput extends CutRef {
  /** Empty = whatever life the id has. */
  readonly uid: string;
  readonly requestId: string;
  /** The record of one whose creation is uncertain goes, whatever the backend has. */
  readonly forget: boolean;
}

/** One of the volumes that a group is restored to. */
export interface RestoredMember
  extends Pick<
    CreateVolumeInput,
    | "id"
    | "capacity"
    | "capabilities"
    | "parameters"
    | "mutableParameters"
    | "topology"
    | "secretRefs"
    | "labels"
    | "policy"
  > {
  /** The volume that its snapshot was cut from. */
  readonly source: string;
}

export interface RestoreGroupInput {
  readonly namespace: string;
  readonly group: string;
  readonly members: readonly RestoredMember[];
  readonly requestId: string;
}

export interface RestoreView {
  /** READY once all are there; FAILED once one has failed, or is gone or going. */
  readonly state: "CREATING" | "READY" | "FAILED";
  /** One has failed, and whether the others go is not decided yet. */
  readonly deciding: boolean;
  /** In the order of the request, without those that are gone. */
  readonly volumes: readonly VolumeView[];
  readonly gone: readonly string[];
}

/** Empty fields do not filter. */
export interface CutFilter {
  readonly namespace: string;
  readonly volume: string;
  readonly plugin: string;
  readonly group: string;
  readonly states: readonly CutState[];
  readonly blocked: boolean;
  readonly labels: Readonly<Record<string, string>>;
}

export interface ListExternalInput {
  readonly plugin: string;
  readonly externalVolumeId: string;
  /** Whose secrets may be used; empty = of nobody in particular. */
  readonly namespace: string;
  readonly secretRef: string | undefined;
}

export interface ExternalSnapshot extends MadeSnapshot {
  readonly known: VolumeRef | undefined;
}

export interface BlocksInput {
  readonly namespace: string;
  /** Empty = all blocks that hold data. */
  readonly base: string;
  readonly target: string;
  readonly startingOffset: bigint;
  readonly maxResults: number;
  readonly totalMs: number;
}

/** What the handlers of SnapshotService call. All reject with HoldfastError and the reasons of docs/errors.md. */
export interface SnapshotCommands {
  createSnapshot(input: CreateSnapshotInput, caller: Caller): Promise<SnapshotView>;
  createGroup(input: CreateGroupInput, caller: Caller): Promise<GroupView>;
  /** All volumes in one commit, or none. */
  restoreGroup(input: RestoreGroupInput, caller: Caller): Promise<RestoreView>;
  /** As this process knows it. */
  findRestore(input: RestoreGroupInput): Promise<RestoreView>;
  /** `true` = it is gone; otherwise it is on its way. */
  deleteCut(input: DeleteCutInput, caller: Caller): Promise<boolean>;
  /** undefined = there is none. */
  findSnapshot(ref: VolumeRef): Promise<SnapshotView | undefined>;
  findGroup(ref: VolumeRef): Promise<GroupView | undefined>;
  getSnapshot(ref: VolumeRef): Promise<SnapshotView>;
  getGroup(ref: VolumeRef): Promise<GroupView>;
  listSnapshots(filter: CutFilter, page: PageInput): Promise<Page<SnapshotView>>;
  listGroups(filter: CutFilter, page: PageInput): Promise<Page<GroupView>>;
  listExternal(input: ListExternalInput, page: PageInput, signal: AbortSignal): Promise<Page<ExternalSnapshot>>;
  /** The snapshots are looked at before the first message. */
  blocks(input: BlocksInput, signal: AbortSignal): AsyncIterable<BlockMetadata>;
}
