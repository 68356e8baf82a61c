import type { Extent } from "./domain/extents.ts";
import type { DriverRecord, FsType, GroupRecord, SnapshotRecord, VolumeRecord } from "./domain/records.ts";

/** Every wait takes a signal: the caller's deadline. An aborted wait rejects, and what it started is killed or undone first. */

export interface Clock {
  /** RFC 3339 with milliseconds. */
  now(): string;
}

/** Where the contents of a volume or a snapshot are. */
export interface ContentPaths {
  /** Of type directory. */
  readonly data: string;
  /** Of type image. */
  readonly image: string;
}

export interface BrokenRecord {
  readonly kind: DriverRecord["kind"];
  /** Of its directory. */
  readonly id: string;
  readonly file: string;
  /** What is wrong with it and what a person can do. Its contents stay untouched. */
  readonly reason: string;
}

/**
 * One kind of records. Reads are from memory and never wait; each write is durable (fsync of file and directory) before it resolves.
 * A record whose file cannot be read is never served, never overwritten and never removed: `get` and `byName` throw FAILED_PRECONDITION
 * that names the file, and `add` refuses a name while a broken record may bear it (it says which file).
 */
export interface Records<R extends DriverRecord> {
  all(): readonly R[];
  get(id: string): R | undefined;
  byName(name: string): R | undefined;
  paths(id: string): ContentPaths;
  /**
   * `fill` makes the contents in a place of their own; then the whole thing appears at once by one rename. When `fill` throws, or the
   * process dies, nothing of it remains (at the next start, at the latest).
   */
  add(record: R, fill: (paths: ContentPaths) => Promise<void>): Promise<void>;
  /** Answers the record as stored. NOT_FOUND when it is gone. */
  change(id: string, change: (record: R) => R): Promise<R>;
  /** Gone at once by one rename; the contents are deleted after that, or at the next start. No error when it is not there. */
  remove(id: string): Promise<void>;
}

export interface State {
  readonly volumes: Records<VolumeRecord>;
  readonly snapshots: Records<SnapshotRecord>;
  readonly groups: Records<GroupRecord>;
  readonly broken: readonly BrokenRecord[];
  /** Resolves when deletions under way have ended. */
  settled(): Promise<void>;
}

export interface Space {
  /** Bytes that an unprivileged writer of the state directory's filesystem may still take. */
  freeBytes(): Promise<bigint>;
  /** Bytes that a file really occupies. */
  allocatedBytes(file: string): Promise<bigint>;
}

/** What an image carries, as read from the file itself: loop devices are never probed, their cached probes are not to be trusted. */
export type Contents =
  | { readonly kind: "blank" }
  | { readonly kind: "filesystem"; readonly fsType: string }
  /** A partition table, LUKS, a RAID member, swap …, by the name that blkid gives it. */
  | { readonly kind: "signature"; readonly name: string }
  /** No known signature, yet not blank. */
  | { readonly kind: "data"; readonly offset: bigint };

export interface Images {
  /** A sparse file of this size; fsynced. */
  create(image: string, bytes: bigint, signal: AbortSignal): Promise<void>;
  /** Never shrinks. */
  grow(image: string, bytes: bigint, signal: AbortSignal): Promise<void>;
  sizeOf(image: string): Promise<bigint>;
  contents(image: string, signal: AbortSignal): Promise<Contents>;
  /** mkfs on the file. Overwrites: the caller has proven it blank or holds an intent. FAILED_PRECONDITION when the program is missing. */
  format(image: string, fsType: FsType, signal: AbortSignal): Promise<void>;
  /** ext4 only, not mounted: fsck -p, then resize2fs to the size of the file. Nothing to do when it fits. */
  fitUnmounted(image: string, fsType: FsType, signal: AbortSignal): Promise<void>;
  /** Grows the mounted filesystem to its device: resize2fs on the device, or xfs_growfs on the mount point. */
  fitMounted(device: string, mountPoint: string, fsType: FsType, signal: AbortSignal): Promise<void>;
  /** Extents that hold data, in order, merged; holes and unwritten ones left out. */
  extents(image: string, signal: AbortSignal): Promise<readonly Extent[]>;
  /** Gives the copy of a filesystem an identity of its own where it must have one (xfs refuses to mount two of the same UUID). */
  newIdentity(image: string, fsType: FsType, signal: AbortSignal): Promise<void>;
}

/** Comparing the contents of two images, for snapshot metadata. */
export interface Blocks {
  /**
   * The blocks of this range whose bytes differ, as extents of whole blocks of 4096 bytes: in order, merged. The range is aligned. What
   * lies past the end of a file reads as zeros, so an image that grew differs only where something was written.
   */
  differing(base: string, target: string, range: Extent, signal: AbortSignal): Promise<readonly Extent[]>;
}

/** The contents of directory volumes. */
export interface Trees {
  /** The empty root of a new one, 0755, durable. Its parent is there. */
  makeRoot(directory: string): Promise<void>;
}

export interface Copier {
  /** By reflink where the filesystem can, else sparse. The copy is fsynced. */
  image(from: string, to: string, signal: AbortSignal): Promise<void>;
  /** Owners, modes, times, links, xattrs and ACLs too. */
  tree(from: string, to: string, signal: AbortSignal): Promise<void>;
  /** Whether a copy of files here is one moment's picture: reflinks are. */
  reflinks(): Promise<boolean>;
}

export interface LoopDevice {
  /** /dev/loopN */
  readonly device: string;
  /** "major:minor" of the device itself (/sys/block/loopN/dev): what the mount table names for a filesystem on it. */
  readonly dev: string;
  readonly readonly: boolean;
}

export interface Loops {
  of(image: string): Promise<readonly LoopDevice[]>;
  attach(image: string, options: { readonly readonly: boolean }, signal: AbortSignal): Promise<LoopDevice>;
  /** Resolves when the kernel has let go of the file; FAILED_PRECONDITION when somebody still has the device open. */
  detach(device: LoopDevice, image: string, signal: AbortSignal): Promise<void>;
  /** After the file grew. */
  refresh(device: LoopDevice, signal: AbortSignal): Promise<void>;
}

export interface MountEntry {
  readonly mountPoint: string;
  /** Field 4: the path inside of the source filesystem. */
  readonly root: string;
  /** "major:minor" */
  readonly dev: string;
  readonly fsType: string;
  readonly source: string;
  /** Of this mount: a read-only bind has `ro` here. */
  readonly options: readonly string[];
  readonly superOptions: readonly string[];
}

/** Each by a killable child or a system call; never by a shell. Never stats a path inside of a volume in this process. */
export interface Mounts {
  table(): Promise<readonly MountEntry[]>;
  mountDevice(
    device: string,
    target: string,
    how: { readonly fsType: FsType; readonly options: readonly string[] },
    signal: AbortSignal,
  ): Promise<void>;
  /** `source` may be a directory or a device node. Read-only in the same breath, or not at all. */
  bind(source: string, target: string, how: { readonly readonly: boolean }, signal: AbortSignal): Promise<void>;
  /** Not lazy, not forced. No error when nothing is mounted there. FAILED_PRECONDITION when it is busy. */
  unmount(target: string, signal: AbortSignal): Promise<void>;
  /** What the table names for this path when it is bound: device numbers and root. */
  identityOf(path: string): Promise<{ readonly dev: string; readonly root: string }>;
  /** "major:minor" of the block device whose node is bound here; undefined when it is no node, or not one of a filesystem in memory. */
  deviceAt(entry: MountEntry): Promise<string | undefined>;
}

export interface Freezer {
  /** Syncs and freezes the filesystem mounted there, runs `act`, thaws whatever happens. */
  during<T>(mountPoints: readonly string[], act: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** For the start: a life that was killed may have left one frozen. No error when it is not. */
  thaw(mountPoint: string, signal: AbortSignal): Promise<void>;
}

/** The places outside of the state directory: staging and target paths. */
export interface Places {
  /** mkdir of the last part only; the parent must be there. */
  makeDirectory(path: string): Promise<void>;
  makeFile(path: string): Promise<void>;
  /** rmdir or unlink of an empty one; no error when it is gone; never recursive. */
  remove(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** As the mount table spells it: symlinks above the last part resolved (the last part is never looked at). The path itself when its parent is not there. */
  resolve(path: string): Promise<string>;
}

export interface Filesystems {
  /** Of a mounted filesystem, by a killable child. */
  usage(mountPoint: string, signal: AbortSignal): Promise<FilesystemUsage>;
  /** Makes the root of the volume usable by the group: chgrp, g+rwx, setgid. */
  giveToGroup(directory: string, gid: string, signal: AbortSignal): Promise<void>;
}

export interface FilesystemUsage {
  readonly bytes: { readonly total: bigint; readonly used: bigint; readonly available: bigint };
  readonly inodes: { readonly total: bigint; readonly used: bigint; readonly available: bigint };
}

/** All of the outside world that the operations use. */
export interface Host {
  readonly state: State;
  readonly space: Space;
  readonly images: Images;
  readonly copier: Copier;
  readonly blocks: Blocks;
  readonly trees: Trees;
  readonly loops: Loops;
  readonly mounts: Mounts;
  readonly freezer: Freezer;
  readonly places: Places;
  readonly filesystems: Filesystems;
  readonly clock: Clock;
  /** A new UUID. */
  newId(): string;
}
