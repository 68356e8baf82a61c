import type { CapacityRange, CreateVolumeInput } from "./domain/create-volume-input.ts";
import type { Page, PageInput } from "./domain/page.ts";
import type { Access, AccessMode, Capability, GroupRecord, SnapshotRecord, VolumeRecord } from "./domain/records.ts";
import type { FilesystemUsage } from "./ports.ts";

export type { CapacityRange, CreateVolumeInput } from "./domain/create-volume-input.ts";
export type { DriverSettings } from "./domain/driver-settings.ts";
export type { Page, PageInput } from "./domain/page.ts";

/**
 * What the driver can do, without gRPC. api/ checks the shape of a request, turns it into one of these calls, and lets in one call
 * at a time for each volume, snapshot and name; so an operation may rely on being alone with what it changes. A refusal is a
 * DriverError. Every operation may be called again after any failure, and after the process was killed in the middle of it.
 */

export interface Condition {
  readonly abnormal: boolean;
  readonly message: string;
}

/** Something adverse, by the names of CSI's statuses. */
export interface HealthEntry<Status> {
  readonly status: Status;
  readonly reason: string;
  readonly message: string;
}

export interface VolumeOperations {
  createVolume(input: CreateVolumeInput, signal: AbortSignal): Promise<VolumeRecord>;
  /** No error when it is not there; FAILED_PRECONDITION while it is mounted, attached, or its device is open. */
  deleteVolume(id: string, signal: AbortSignal): Promise<void>;
  getVolume(id: string): Promise<{ readonly volume: VolumeRecord; readonly condition: Condition }>;
  listVolumes(page: PageInput): Promise<Page<{ readonly volume: VolumeRecord; readonly condition: Condition }>>;
  /** Undefined: all of them are fine; otherwise why not. */
  validateCapabilities(
    id: string,
    input: Pick<CreateVolumeInput, "capabilities" | "parameters" | "mutableParameters">,
  ): Promise<string | undefined>;
  capacity(
    input: Pick<CreateVolumeInput, "capabilities" | "parameters"> & {
      readonly segments: Readonly<Record<string, string>>;
    },
  ): Promise<{
    readonly availableBytes: bigint;
    readonly maximumVolumeBytes: bigint;
    readonly minimumVolumeBytes: bigint;
  }>;
  expandVolume(
    id: string,
    input: { readonly capacity: CapacityRange; readonly capability: Capability | undefined },
    signal: AbortSignal,
  ): Promise<{ readonly capacityBytes: bigint; readonly nodeExpansionRequired: boolean }>;
  modifyVolume(id: string, mutableParameters: Readonly<Record<string, string>>): Promise<void>;
  attach(
    id: string,
    input: { readonly nodeId: string; readonly capability: Capability; readonly readonly: boolean },
  ): Promise<void>;
  /** An empty nodeId: from all nodes. */
  detach(id: string, nodeId: string): Promise<void>;
}

export interface SnapshotOperations {
  createSnapshot(
    input: { readonly name: string; readonly volumeId: string; readonly parameters: Readonly<Record<string, string>> },
    signal: AbortSignal,
  ): Promise<SnapshotRecord>;
  deleteSnapshot(id: string): Promise<void>;
  getSnapshot(id: string): Promise<SnapshotRecord>;
  listSnapshots(
    page: PageInput,
    filter: { readonly volumeId: string; readonly snapshotId: string },
  ): Promise<Page<SnapshotRecord>>;
  createGroup(
    input: {
      readonly name: string;
      readonly volumeIds: readonly string[];
      readonly parameters: Readonly<Record<string, string>>;
    },
    signal: AbortSignal,
  ): Promise<{ readonly group: GroupRecord; readonly snapshots: readonly SnapshotRecord[] }>;
  deleteGroup(id: string, snapshotIds: readonly string[]): Promise<void>;
  getGroup(
    id: string,
    snapshotIds: readonly string[],
  ): Promise<{ readonly group: GroupRecord; readonly snapshots: readonly SnapshotRecord[] }>;
}

export interface Block {
  readonly offset: bigint;
  readonly size: bigint;
}

export interface BlockStream {
  readonly capacityBytes: bigint;
  /** Each of at most `maxResults` blocks. */
  readonly blocks: AsyncIterable<readonly Block[]>;
}

export interface MetadataOperations {
  allocated(
    input: { readonly snapshotId: string; readonly startingOffset: bigint; readonly maxResults: number },
    signal: AbortSignal,
  ): Promise<BlockStream>;
  delta(
    input: {
      readonly baseSnapshotId: string;
      readonly targetSnapshotId: string;
      readonly startingOffset: bigint;
      readonly maxResults: number;
    },
    signal: AbortSignal,
  ): Promise<BlockStream>;
}

export interface StageInput {
  readonly volumeId: string;
  readonly stagingPath: string;
  readonly capability: Capability;
}

export interface PublishInput {
  readonly volumeId: string;
  readonly stagingPath: string;
  readonly targetPath: string;
  readonly capability: Capability;
  readonly readonly: boolean;
}

export interface VolumeStats {
  readonly access: Access;
  /** Of a block device: its size alone. */
  readonly totalBytes: bigint;
  readonly usage: FilesystemUsage | undefined;
  readonly condition: Condition;
}

export interface NodeOperations {
  stage(input: StageInput, signal: AbortSignal): Promise<void>;
  unstage(input: Pick<StageInput, "volumeId" | "stagingPath">, signal: AbortSignal): Promise<void>;
  publish(input: PublishInput, signal: AbortSignal): Promise<void>;
  unpublish(input: Pick<PublishInput, "volumeId" | "targetPath">, signal: AbortSignal): Promise<void>;
  stats(input: { readonly volumeId: string; readonly path: string }, signal: AbortSignal): Promise<VolumeStats>;
  /** Also of a volume that could not be staged or published. Empty: nothing adverse. */
  volumeHealth(
    input: { readonly volumeId: string },
    signal: AbortSignal,
  ): Promise<readonly HealthEntry<"DATA_LOSS" | "INACCESSIBLE">[]>;
  storageHealth(): Promise<readonly HealthEntry<"STORAGE_DEGRADED">[]>;
  expand(
    input: {
      readonly volumeId: string;
      readonly path: string;
      readonly capacity: CapacityRange;
      readonly capability: Capability | undefined;
    },
    signal: AbortSignal,
  ): Promise<{ readonly capacityBytes: bigint }>;
  /** At the start, before the first call: thaws what a killed life left frozen, lets go of loop devices that nothing needs. Says what it did. */
  recover(signal: AbortSignal): Promise<readonly string[]>;
}

/** For checks that several operations share: which of the modes let a volume be written at all. */
export const readsOnly = (mode: AccessMode): boolean => mode === "SINGLE_NODE_READER_ONLY";
