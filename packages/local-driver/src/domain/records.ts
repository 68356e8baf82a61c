/** What the driver remembers. All of it is on disk before an answer says so, and plain JSON there (sizes as decimal strings). */

/** `directory`: a directory of the host. `image`: a sparse file behind a loop device, with a true capacity. */
export type VolumeType = "directory" | "image";
export type FsType = "ext4" | "xfs";
/** How a workload sees it: a mounted filesystem or a raw device. */
export type Access = "mount" | "block";

export type AccessMode =
  | "SINGLE_NODE_WRITER"
  | "SINGLE_NODE_READER_ONLY"
  | "SINGLE_NODE_SINGLE_WRITER"
  | "SINGLE_NODE_MULTI_WRITER";

export interface Capability {
  readonly access: Access;
  readonly mode: AccessMode;
  /** Empty: the volume's own, or the driver's default. Always empty for block. */
  readonly fsType: "" | FsType;
  readonly mountFlags: readonly string[];
  /** A numeric gid, or empty. */
  readonly mountGroup: string;
}

export interface ContentSource {
  readonly kind: "snapshot" | "volume";
  readonly id: string;
}

/** What is in an image. `finished: false` is an intent of our own: mkfs was about to run, over contents that were proven blank. */
export interface ImageFormat {
  readonly fsType: FsType;
  readonly finished: boolean;
}

export interface Attachment {
  readonly nodeId: string;
  readonly readonly: boolean;
  readonly access: Access;
  readonly mode: AccessMode;
}

/** Written before the first mount of NodeStage, removed after the last unmount of NodeUnstage: the kernel tells what is true in between. */
export interface Staging {
  readonly path: string;
  readonly capability: Capability;
}

/** Written before the target is made, removed after it is gone. */
export interface Publication {
  readonly path: string;
  readonly readonly: boolean;
  readonly capability: Capability;
}

export interface VolumeRecord {
  readonly kind: "volume";
  /** A UUID of the driver's making: never reused, safe in a path. */
  readonly id: string;
  readonly name: string;
  readonly type: VolumeType;
  /** Of an image: its exact size. Of a directory: what was asked for, as a note; nothing enforces it. */
  readonly capacityBytes: bigint;
  /** RFC 3339. */
  readonly createdAt: string;
  /** As CreateVolume was asked, to tell a repeat from another volume of the same name. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly source: ContentSource | undefined;
  /** By ModifyVolume (or CreateVolume's mutable parameters). */
  readonly mutable: Readonly<Record<string, string>>;
  /** Images only; absent: blank, or raw data of a block workload. */
  readonly format: ImageFormat | undefined;
  readonly attachments: readonly Attachment[];
  readonly staging: Staging | undefined;
  readonly publications: readonly Publication[];
}

export interface SnapshotRecord {
  readonly kind: "snapshot";
  readonly id: string;
  readonly name: string;
  readonly volumeId: string;
  /** Of the volume it was taken of; a restored volume gets at least this capacity. */
  readonly type: VolumeType;
  readonly sizeBytes: bigint;
  readonly format: ImageFormat | undefined;
  readonly createdAt: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly groupId: string | undefined;
}

export interface GroupRecord {
  readonly kind: "group";
  readonly id: string;
  readonly name: string;
  readonly createdAt: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly volumeIds: readonly string[];
  readonly snapshotIds: readonly string[];
}

export type DriverRecord = VolumeRecord | SnapshotRecord | GroupRecord;
