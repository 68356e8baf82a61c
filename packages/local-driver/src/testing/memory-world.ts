import type { Extent } from "../domain/extents.ts";
import type { FsType } from "../domain/records.ts";
import type { Contents, MountEntry } from "../ports.ts";

export const blockBytes = 4096n;

/** A sparse file. */
export interface MemoryImage {
  readonly kind: "image";
  bytes: bigint;
  /** Allocated blocks by number; the value stands for the content, 0 for zeros. */
  readonly blocks: Map<bigint, number>;
  /** What blkid would say; undefined: nothing known. */
  signature: Exclude<Contents, { kind: "blank" | "data" }> | undefined;
  /** mkfs was begun and not ended. */
  halfFormatted: boolean;
  /** How much of the file the filesystem covers. */
  filesystemBytes: bigint;
  /** Differs from that of every other filesystem, unless it was copied. */
  identity: number;
}

export interface MemoryTree {
  readonly kind: "tree";
  readonly entries: Map<string, string>;
}

export interface MemoryLoop {
  readonly device: string;
  readonly image: string;
  readonly readonly: boolean;
  /** The size that the kernel knows: until a refresh that of the time of the attach. */
  bytes: bigint;
}

/** What outlives a process: disk, kernel, mounts. Tests look at it and change it as they like. */
export interface MemoryWorld {
  readonly files: Map<string, MemoryImage | MemoryTree>;
  readonly loops: Map<string, MemoryLoop>;
  /** Later ones on top. */
  readonly mounts: MountEntry[];
  /** "major:minor" of frozen filesystems. */
  readonly frozen: Set<string>;
  /** Outside of the state directory. */
  readonly places: Map<string, "directory" | "file">;
  /** Symbolic links to directories, by their own path. */
  readonly links: Map<string, string>;
  /** Mount points and devices that somebody has open. */
  readonly busy: Set<string>;
  /** gid by directory. */
  readonly groups: Map<string, string>;
  /** Programs that are not installed: mkfs.xfs, … */
  readonly missingPrograms: Set<string>;
  diskBytes: bigint;
  reflinks: boolean;
  /** Of every filesystem identity so far. */
  identities: number;
}

export function createMemoryWorld(): MemoryWorld {
  return {
    files: new Map(),
    loops: new Map(),
    mounts: [],
    frozen: new Set(),
    places: new Map([["/", "directory"]]),
    links: new Map(),
    busy: new Set(),
    groups: new Map(),
    missingPrograms: new Set(),
    diskBytes: 1n << 40n,
    reflinks: true,
    identities: 0,
  };
}

export const allocatedBytes = (image: MemoryImage): bigint => BigInt(image.blocks.size) * blockBytes;

export function freeBytes(world: MemoryWorld): bigint {
  let used = 0n;
  for (const file of world.files.values()) if (file.kind === "image") used += allocatedBytes(file);
  return world.diskBytes > used ? world.diskBytes - used : 0n;
}

export function contentsOf(image: MemoryImage): Contents {
  if (image.signature !== undefined) return image.signature;
  const written = [...image.blocks].filter(([, value]) => value !== 0).map(([block]) => block);
  if (written.length === 0) return { kind: "blank" };
  return { kind: "data", offset: written.reduce((a, b) => (a < b ? a : b)) * blockBytes };
}

export function extentsOf(image: MemoryImage): readonly Extent[] {
  return merged([...image.blocks.keys()]);
}

/** Block numbers as extents of bytes. */
export function merged(blocks: readonly bigint[]): readonly Extent[] {
  const found: { offset: bigint; length: bigint }[] = [];
  for (const block of blocks.toSorted((a, b) => (a < b ? -1 : 1))) {
    const last = found.at(-1);
    if (last !== undefined && last.offset + last.length === block * blockBytes) last.length += blockBytes;
    else found.push({ offset: block * blockBytes, length: blockBytes });
  }
  return found;
}

/** As the mount table spells it: links above the last part resolved. */
export function spelling(world: MemoryWorld, path: string): string {
  for (const [link, target] of world.links) if (path.startsWith(`${link}/`)) return target + path.slice(link.length);
  return path;
}

export const devOf = (device: string): string => `7:${device.replace("/dev/loop", "")}`;

export const topMount = (world: MemoryWorld, path: string): MountEntry | undefined =>
  world.mounts.findLast((entry) => entry.mountPoint === spelling(world, path));

/** Mounts of the filesystem that the device carries. */
export const filesystemMounts = (world: MemoryWorld, device: string): readonly MountEntry[] =>
  world.mounts.filter((entry) => entry.dev === devOf(device));

/** Binds of the device node itself. */
export const nodeBinds = (world: MemoryWorld, device: string): readonly MountEntry[] =>
  world.mounts.filter((entry) => entry.fsType === "devtmpfs" && entry.root === device.replace("/dev", ""));

export const loopsOf = (world: MemoryWorld, image: string): readonly MemoryLoop[] =>
  [...world.loops.values()].filter((loop) => loop.image === image);

export const mkfsOf: Readonly<Record<FsType, string>> = { ext4: "mkfs.ext4", xfs: "mkfs.xfs" };
