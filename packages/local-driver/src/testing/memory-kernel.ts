import { DriverError } from "../domain/driver-error.ts";
import type { Filesystems, Freezer, Loops, MountEntry, Mounts, Places } from "../ports.ts";
import { CallerFault } from "./caller-fault.ts";
import type { Life } from "./memory-faults.ts";
import { type MemoryRecords, memoryRoot, pathsOf } from "./memory-state.ts";
import { devOf, filesystemMounts, loopsOf, type MemoryWorld, nodeBinds, spelling, topMount } from "./memory-world.ts";

export interface MemoryKernel {
  readonly loops: Loops;
  readonly mounts: Mounts;
  readonly freezer: Freezer;
  readonly places: Places;
  readonly filesystems: Filesystems;
}

const gib = 1n << 30n;

export function createMemoryKernel(world: MemoryWorld, records: MemoryRecords, life: Life): MemoryKernel {
  const refuseBusy = (what: string) => {
    if (world.busy.has(what)) throw new DriverError("FAILED_PRECONDITION", `EBUSY: ${what} is in use by somebody`);
  };
  const same = (a: string | undefined, b: string) => a !== undefined && spelling(world, a) === spelling(world, b);
  const volumeOfImage = (image: string) =>
    [...records.volumes.values()].find((volume) => pathsOf("volumes", volume.id).image === image);
  const announced = (target: string) =>
    [...records.volumes.values()].some(
      (volume) => same(volume.staging?.path, target) || volume.publications.some((each) => same(each.path, target)),
    );
  const refuseTarget = (target: string, wanted: "directory" | "file") => {
    if (!announced(target)) throw new CallerFault(`${target}: a mount that no record announces`);
    if (topMount(world, target) !== undefined) throw new CallerFault(`${target}: a mount over a mount`);
    const place = world.places.get(spelling(world, target));
    if (place === undefined) throw new DriverError("INTERNAL", `ENOENT: ${target}`);
    if (place !== wanted) throw new CallerFault(`${target} is a ${place}`);
  };
  const identityOf = (path: string): Omit<MountEntry, "mountPoint" | "options"> => {
    if (path.startsWith("/dev/loop")) {
      if (!world.loops.has(path)) throw new CallerFault(`${path} is not attached`);
      return { root: path.replace("/dev", ""), dev: "0:6", fsType: "devtmpfs", source: "udev", superOptions: ["rw"] };
    }
    const mounted = topMount(world, path);
    if (mounted !== undefined) return mounted;
    const inState = world.files.get(path)?.kind === "tree";
    if (!inState && world.places.get(spelling(world, path)) === undefined)
      throw new DriverError("INTERNAL", `ENOENT: ${path}`);
    return { root: path, dev: "8:1", fsType: "ext4", source: "/dev/sda1", superOptions: ["rw"] };
  };

  return {
    loops: {
      of: async (image) =>
        loopsOf(world, image).map(({ device, readonly }) => ({ device, dev: devOf(device), readonly })),
      attach: async (image, options) => {
        const file = world.files.get(image);
        if (file?.kind !== "image") throw new DriverError("INTERNAL", `ENOENT: ${image}`);
        if (loopsOf(world, image).some((loop) => loop.readonly === options.readonly))
          throw new CallerFault(`${image}: a second ${options.readonly ? "read-only" : "read-write"} loop device`);
        const volume = volumeOfImage(image);
        if (volume?.staging === undefined && (volume?.publications.length ?? 0) === 0)
          throw new CallerFault(`${image}: a loop device that no record announces`);
        if (volume?.format?.finished === false) throw new CallerFault(`${image}: a loop device before mkfs has ended`);
        let number = 0;
        while (world.loops.has(`/dev/loop${number}`)) number += 1;
        const device = `/dev/loop${number}`;
        world.loops.set(device, { device, image, readonly: options.readonly, bytes: file.bytes });
        return { device, dev: devOf(device), readonly: options.readonly };
      },
      detach: async ({ device }, image) => {
        const loop = world.loops.get(device);
        if (loop === undefined) return;
        if (loop.image !== image) throw new CallerFault(`${device} has ${loop.image}, and not ${image}`);
        const user = filesystemMounts(world, device)[0] ?? nodeBinds(world, device)[0];
        if (user !== undefined) throw new CallerFault(`${device} was detached while ${user.mountPoint} uses it`);
        refuseBusy(device);
        world.loops.delete(device);
      },
      refresh: async ({ device }) => {
        const loop = world.loops.get(device);
        const file = loop && world.files.get(loop.image);
        if (loop === undefined || file?.kind !== "image") throw new CallerFault(`${device} is not attached`);
        loop.bytes = file.bytes;
      },
    },
    mounts: {
      table: async () => structuredClone(world.mounts),
      mountDevice: async (device, target, how) => {
        const loop = world.loops.get(device);
        if (loop === undefined) throw new CallerFault(`${device} is not attached`);
        const file = world.files.get(loop.image);
        if (file?.kind !== "image") throw new CallerFault(`${device}: its image is gone`);
        if (file.signature?.kind !== "filesystem" || file.signature.fsType !== how.fsType)
          throw new CallerFault(`${device}: mount of ${how.fsType}, and that is not what its image carries`);
        if (!same(volumeOfImage(loop.image)?.staging?.path, target))
          throw new CallerFault(`${target}: a mount that the record of the volume does not announce`);
        refuseTarget(target, "directory");
        const access = loop.readonly || how.options.includes("ro") ? "ro" : "rw";
        const options = [access, ...how.options.filter((option) => option !== "ro" && option !== "rw")];
        const rest = { root: "/", dev: devOf(device), fsType: how.fsType, source: device, superOptions: [access] };
        world.mounts.push({ mountPoint: spelling(world, target), options, ...rest });
      },
      bind: async (source, target, how) => {
        const identity = identityOf(source);
        refuseTarget(target, identity.fsType === "devtmpfs" ? "file" : "directory");
        const { root, dev, fsType, source: from, superOptions } = identity;
        const options = [how.readonly ? "ro" : "rw"];
        world.mounts.push({
          mountPoint: spelling(world, target),
          root,
          dev,
          fsType,
          source: from,
          options,
          superOptions,
        });
      },
      unmount: async (target) => {
        const top = topMount(world, target);
        if (top === undefined) return;
        if (world.frozen.has(top.dev)) throw new CallerFault(`${target} was unmounted while frozen: a thaw is owed`);
        refuseBusy(target);
        world.mounts.splice(world.mounts.lastIndexOf(top), 1);
      },
      identityOf: async (path) => {
        const { dev, root } = identityOf(path);
        return { dev, root };
      },
      // As a container's own /dev has it: the name of the node tells its number.
      deviceAt: async ({ mountPoint }) => {
        const top = topMount(world, mountPoint);
        return top?.fsType === "tmpfs" && top.root.startsWith("/loop") ? devOf(`/dev${top.root}`) : undefined;
      },
    },
    freezer: {
      during: async (mountPoints, act) => {
        const devs = mountPoints.map((mountPoint) => {
          const top = topMount(world, mountPoint);
          if (top === undefined || !top.source.startsWith("/dev/loop"))
            throw new CallerFault(`${mountPoint}: a freeze of what is no mounted image`);
          return top.dev;
        });
        if (new Set(devs).size !== devs.length || devs.some((dev) => world.frozen.has(dev)))
          throw new CallerFault(`${mountPoints.join(", ")}: frozen twice (EBUSY)`);
        for (const dev of devs) world.frozen.add(dev);
        try {
          return await act();
        } finally {
          if (!life.dead()) for (const dev of devs) world.frozen.delete(dev);
        }
      },
      thaw: async (mountPoint) => {
        const top = topMount(world, mountPoint);
        if (top === undefined) throw new CallerFault(`${mountPoint}: a thaw of what is not mounted`);
        world.frozen.delete(top.dev);
      },
    },
    places: {
      makeDirectory: async (path) => makePlace(world, path, "directory"),
      makeFile: async (path) => makePlace(world, path, "file"),
      remove: async (path) => {
        if (topMount(world, path) !== undefined) throw new CallerFault(`${path} was removed while mounted`);
        if (path.startsWith(memoryRoot)) throw new CallerFault(`${path}: the state directory is not places' to change`);
        world.places.delete(spelling(world, path));
      },
      resolve: async (path) => spelling(world, path),
      exists: async (path) => world.places.has(spelling(world, path)) || world.files.has(path),
    },
    filesystems: {
      usage: async (mountPoint) => {
        const top = topMount(world, mountPoint);
        if (top === undefined) throw new CallerFault(`${mountPoint}: usage of what is not mounted`);
        const file = world.files.get(world.loops.get(top.source)?.image ?? "");
        const total = file?.kind === "image" ? file.filesystemBytes : 100n * gib;
        return {
          bytes: { total, used: total / 4n, available: total - total / 4n },
          inodes: { total: 1000n, used: 10n, available: 990n },
        };
      },
      giveToGroup: async (directory, gid) => {
        if (!/^\d+$/.test(gid)) throw new CallerFault(`${gid} is no gid`);
        if (topMount(world, directory) === undefined && world.files.get(directory)?.kind !== "tree")
          throw new CallerFault(`${directory}: neither mounted nor a volume`);
        world.groups.set(directory, gid);
      },
    },
  };
}

function makePlace(world: MemoryWorld, asked: string, kind: "directory" | "file"): void {
  const path = spelling(world, asked);
  if (path.startsWith(memoryRoot)) throw new CallerFault(`${path}: the state directory is not places' to change`);
  const parent = path.slice(0, path.lastIndexOf("/")) || "/";
  if (world.places.get(parent) !== "directory") throw new DriverError("INTERNAL", `ENOENT: ${parent} is not there`);
  const found = world.places.get(spelling(world, path));
  if (found !== undefined && found !== kind) throw new DriverError("INTERNAL", `EEXIST: ${path} is a ${found}`);
  world.places.set(path, kind);
}
