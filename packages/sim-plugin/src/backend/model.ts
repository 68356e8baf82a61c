import type {
  NodeGetStorageHealthResponse_StorageBackendHealth,
  VolumeCapability,
  VolumeHealth_VolumeHealthEntry,
} from "@holdfast/shared/gen/csi/v1/csi";

export type StringMap = { readonly [key: string]: string };

export type ContentSource = { readonly kind: "snapshot" | "volume"; readonly id: string };

export interface SimVolume {
  readonly id: string;
  /** The name of CreateVolume; for a volume made outside, its id. */
  readonly name: string;
  capacity: bigint;
  readonly context: StringMap;
  /** Empty means "whatever is asked": a volume made outside. */
  readonly capabilities: readonly VolumeCapability[];
  readonly parameters: StringMap;
  mutableParameters: StringMap;
  readonly source?: ContentSource;
  readonly topology: readonly StringMap[];
  /** Of CreateVolume's arguments but the secrets: tells a replay from a clash of names. */
  readonly argumentsHash: string;
  condition?: { readonly abnormal: boolean; readonly message: string };
  /** What is wrong with it as the controller sees it. */
  health?: readonly VolumeHealth_VolumeHealthEntry[];
  /** The same as a node sees it, by node. */
  nodeHealth?: { readonly [node: string]: readonly VolumeHealth_VolumeHealthEntry[] };
  /** Counts attachments, so that each life of an attachment has a publish context of its own. */
  attachCount: number;
}

export interface SimSnapshot {
  readonly id: string;
  readonly name: string;
  readonly source: string;
  readonly size: bigint;
  readonly createdAt: Date;
  readonly argumentsHash: string;
  readonly group?: string;
  /** Where volumes can be made from it; empty: everywhere. */
  readonly topology?: readonly StringMap[];
  /** Answers left that still say "not ready". */
  pollsLeft: number;
}

export interface SimGroup {
  readonly id: string;
  readonly name: string;
  readonly snapshots: readonly string[];
  readonly createdAt: Date;
  readonly argumentsHash: string;
}

export interface Attachment {
  readonly volume: string;
  readonly node: string;
  readonly capability: VolumeCapability;
  readonly readonly: boolean;
  readonly publishContext: StringMap;
  readonly secretsHash: string;
}

export interface Stage {
  readonly volume: string;
  readonly node: string;
  readonly path: string;
  readonly capability: VolumeCapability;
  readonly argumentsHash: string;
}

export interface Publication {
  readonly volume: string;
  readonly node: string;
  readonly target: string;
  readonly capability: VolumeCapability;
  readonly readonly: boolean;
  readonly argumentsHash: string;
}

export interface SimNode {
  readonly id: string;
  readonly maxVolumes: number;
  readonly topology?: StringMap;
  /** Proved dead: its stages and mounts do not hold a detach back. */
  fenced: boolean;
  /** What is wrong with the way from it to the storage. */
  storageHealth?: readonly NodeGetStorageHealthResponse_StorageBackendHealth[];
}

export interface SimState {
  readonly volumes: Map<string, SimVolume>;
  readonly snapshots: Map<string, SimSnapshot>;
  readonly groups: Map<string, SimGroup>;
  /** The uses of a volume, by its id. */
  readonly attachments: Map<string, readonly Attachment[]>;
  readonly stages: Map<string, readonly Stage[]>;
  readonly publications: Map<string, readonly Publication[]>;
  readonly nodes: Map<string, SimNode>;
}

export const emptyState = (): SimState => ({
  volumes: new Map(),
  snapshots: new Map(),
  groups: new Map(),
  attachments: new Map(),
  stages: new Map(),
  publications: new Map(),
  nodes: new Map(),
});

export const attachmentOf = (state: SimState, volume: string, node: string): Attachment | undefined =>
  state.attachments.get(volume)?.find((one) => one.node === node);

export const stageOf = (state: SimState, volume: string, node: string): Stage | undefined =>
  state.stages.get(volume)?.find((one) => one.node === node);

export const publicationsAt = (state: SimState, volume: string, node: string): readonly Publication[] =>
  (state.publications.get(volume) ?? []).filter((one) => one.node === node);

export const publicationOf = (state: SimState, volume: string, node: string, target: string): Publication | undefined =>
  publicationsAt(state, volume, node).find((one) => one.target === target);

/** Replaces or adds the use that `same` recognises; a volume without uses has no entry. */
export const putUse = <T extends { readonly volume: string }>(
  uses: Map<string, readonly T[]>,
  use: T,
  same: (other: T) => boolean,
): void => {
  uses.set(use.volume, [...(uses.get(use.volume) ?? []).filter((other) => !same(other)), use]);
};

export const dropUses = <T extends { readonly volume: string }>(
  uses: Map<string, readonly T[]>,
  volume: string,
  gone: (use: T) => boolean,
): void => {
  const left = (uses.get(volume) ?? []).filter((use) => !gone(use));
  if (left.length === 0) uses.delete(volume);
  else uses.set(volume, left);
};
