import { DriverError } from "../domain/driver-error.ts";
import type { Blocks, Copier, Images, Space, Trees } from "../ports.ts";
import { CallerFault } from "./caller-fault.ts";
import { type MemoryRecords, pathsOf } from "./memory-state.ts";
import {
  allocatedBytes,
  blockBytes,
  contentsOf,
  devOf,
  extentsOf,
  filesystemMounts,
  freeBytes,
  loopsOf,
  type MemoryImage,
  type MemoryWorld,
  merged,
  mkfsOf,
} from "./memory-world.ts";

export interface MemoryFiles {
  readonly space: Space;
  readonly images: Images;
  readonly copier: Copier;
  readonly blocks: Blocks;
  readonly trees: Trees;
}

/** The files of the state directory, by path. */
export function createMemoryFiles(world: MemoryWorld, records: MemoryRecords): MemoryFiles {
  const imageAt = (path: string): MemoryImage => {
    const file = world.files.get(path);
    if (file?.kind !== "image") throw new DriverError("INTERNAL", `ENOENT: no such file, ${path}`);
    return file;
  };
  const newFile = (path: string) => {
    if (world.files.has(path)) throw new CallerFault(`${path} is there already and would be overwritten`);
  };
  const room = (bytes: bigint) => {
    if (bytes > freeBytes(world)) throw new DriverError("RESOURCE_EXHAUSTED", "ENOSPC: no space left on device");
  };
  const ownerOf = (image: string) =>
    [...records.volumes.values()].find((each) => pathsOf("volumes", each.id).image === image);
  const mountedFrom = (path: string) => loopsOf(world, path).flatMap((loop) => filesystemMounts(world, loop.device));

  return {
    space: {
      freeBytes: async () => freeBytes(world),
      allocatedBytes: async (path) => allocatedBytes(imageAt(path)),
    },
    images: {
      create: async (path, bytes) => {
        newFile(path);
        if (bytes <= 0n || bytes % blockBytes !== 0n) throw new CallerFault(`${path}: an image of ${bytes} bytes`);
        world.files.set(path, {
          kind: "image",
          bytes,
          blocks: new Map(),
          signature: undefined,
          halfFormatted: false,
          filesystemBytes: 0n,
          identity: 0,
        });
      },
      grow: async (path, bytes) => {
        const image = imageAt(path);
        if (bytes % blockBytes !== 0n) throw new CallerFault(`${path}: an image of ${bytes} bytes`);
        if (bytes > image.bytes) image.bytes = bytes;
      },
      sizeOf: async (path) => imageAt(path).bytes,
      contents: async (path) => contentsOf(imageAt(path)),
      format: async (path, fsType) => {
        const image = imageAt(path);
        const format = ownerOf(path)?.format;
        if (format?.finished !== false || format.fsType !== fsType)
          throw new CallerFault(`${path}: mkfs.${fsType} without a stored intent`);
        if (loopsOf(world, path).length > 0) throw new CallerFault(`${path}: mkfs while a loop device has it`);
        if (contentsOf(image).kind !== "blank" && !image.halfFormatted && image.signature?.kind !== "filesystem")
          throw new CallerFault(`${path}: mkfs over contents that are not blank`);
        if (world.missingPrograms.has(mkfsOf[fsType]))
          throw new DriverError("FAILED_PRECONDITION", `${mkfsOf[fsType]} is not installed: install it`);
        room(blockBytes);
        image.blocks.clear();
        image.blocks.set(0n, 1);
        image.signature = { kind: "filesystem", fsType };
        image.halfFormatted = false;
        image.filesystemBytes = image.bytes;
        world.identities += 1;
        image.identity = world.identities;
      },
      fitUnmounted: async (path, fsType) => {
        const image = imageAt(path);
        if (mountedFrom(path).length > 0) throw new CallerFault(`${path}: fsck while it is mounted`);
        if (image.signature?.kind !== "filesystem" || image.signature.fsType !== fsType)
          throw new CallerFault(`${path}: fsck.${fsType} of something else`);
        if (fsType === "ext4") image.filesystemBytes = image.bytes;
      },
      fitMounted: async (device, mountPoint, fsType) => {
        const loop = world.loops.get(device);
        if (loop === undefined) throw new CallerFault(`${device} is not attached`);
        const image = imageAt(loop.image);
        if (!filesystemMounts(world, device).some((entry) => entry.mountPoint === mountPoint))
          throw new CallerFault(`${device} is not mounted at ${mountPoint}`);
        if (image.signature?.kind !== "filesystem" || image.signature.fsType !== fsType)
          throw new CallerFault(`${device}: growing ${fsType} of something else`);
        image.filesystemBytes = loop.bytes;
      },
      extents: async (path) => extentsOf(imageAt(path)),
      newIdentity: async (path, fsType) => {
        const image = imageAt(path);
        if (mountedFrom(path).length > 0) throw new CallerFault(`${path}: a new identity while it is mounted`);
        if (image.signature?.kind !== "filesystem" || image.signature.fsType !== fsType)
          throw new CallerFault(`${path}: a new identity for ${fsType}, which it is not`);
        world.identities += 1;
        image.identity = world.identities;
      },
    },
    copier: {
      image: async (from, to) => {
        const source = imageAt(from);
        newFile(to);
        for (const loop of loopsOf(world, from)) {
          const written = filesystemMounts(world, loop.device).some((entry) => !entry.options.includes("ro"));
          if (!loop.readonly && written && !world.frozen.has(devOf(loop.device)))
            throw new CallerFault(`${from} was copied while its filesystem is mounted and not frozen`);
        }
        // A reflink takes no room, but the memory host has no shared blocks: there must be room for them all.
        room(allocatedBytes(source));
        world.files.set(to, { ...source, blocks: new Map(source.blocks) });
      },
      tree: async (from, to) => {
        const source = world.files.get(from);
        if (source?.kind !== "tree") throw new DriverError("INTERNAL", `ENOENT: no such directory, ${from}`);
        newFile(to);
        world.files.set(to, { kind: "tree", entries: new Map(source.entries) });
      },
      reflinks: async () => world.reflinks,
    },
    blocks: {
      differing: async (base, target, range) => {
        if (range.offset % blockBytes !== 0n || range.length % blockBytes !== 0n || range.length <= 0n)
          throw new CallerFault(`a range of ${range.length} bytes at ${range.offset} is not of whole blocks`);
        const [left, right] = [imageAt(base).blocks, imageAt(target).blocks];
        const [first, last] = [range.offset / blockBytes, (range.offset + range.length) / blockBytes];
        const touched = new Set([...left.keys(), ...right.keys()]);
        return merged(
          [...touched].filter((at) => at >= first && at < last && (left.get(at) ?? 0) !== (right.get(at) ?? 0)),
        );
      },
    },
    trees: {
      makeRoot: async (directory) => {
        newFile(directory);
        world.files.set(directory, { kind: "tree", entries: new Map() });
      },
    },
  };
}
