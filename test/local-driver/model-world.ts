/** What the tests believe of the driver: what every call that was answered must have led to, and nothing else. */
import type { VolumeKind } from "./volume-kinds.ts";

/** A file, or of a block volume the slot of this number: what was written there last. */
export interface Written {
  readonly seed: number;
  readonly length: number;
}

export type ModelContents = ReadonlyMap<string, Written>;

export interface ModelVolume {
  readonly id: string;
  readonly name: string;
  readonly kind: VolumeKind;
  bytes: bigint;
  contents: ModelContents;
  mountOptions: string;
  /** By ControllerPublishVolume, where that is on offer. */
  attached: boolean;
  staging: string | undefined;
  /** Those of the stage under way. */
  stagedOptions: string;
  /** The image grew while it was staged, and NodeExpandVolume has not said OK. */
  growing: boolean;
  /** Target → read-only. */
  readonly targets: Map<string, boolean>;
}

export interface ModelSnapshot {
  readonly id: string;
  readonly name: string;
  readonly volumeId: string;
  readonly kind: VolumeKind;
  readonly bytes: bigint;
  readonly contents: ModelContents;
  readonly groupId: string;
}

export interface ModelGroup {
  readonly id: string;
  readonly name: string;
  readonly snapshotIds: readonly string[];
}

export interface ModelWorld {
  /** The driver offers ControllerPublishVolume, and wants it before NodeStageVolume. */
  readonly attaching: boolean;
  /** By id. */
  readonly volumes: Map<string, ModelVolume>;
  readonly snapshots: Map<string, ModelSnapshot>;
  readonly groups: Map<string, ModelGroup>;
  /** For names that were never used before. */
  counter: number;
}

export const createModelWorld = ({ attaching }: Pick<ModelWorld, "attaching">): ModelWorld => ({
  attaching,
  volumes: new Map(),
  snapshots: new Map(),
  groups: new Map(),
  counter: 0,
});

export const slotBytes = 65_536;

export const writableTargets = (volume: ModelVolume): readonly string[] =>
  [...volume.targets].filter(([, readonly]) => !readonly).map(([target]) => target);

/** A copy of it is one moment's picture: a filesystem of its own is frozen, anything else must not be written meanwhile. */
export const copyable = (volume: ModelVolume): boolean =>
  volume.kind === "ext4" || volume.kind === "xfs" || writableTargets(volume).length === 0;
