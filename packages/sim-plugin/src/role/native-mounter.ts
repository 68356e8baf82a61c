import { dlopen } from "node:ffi";
import { stat } from "node:fs/promises";
import type { Mounter } from "./mounter.ts";

/** Of linux/mount.h. */
const flags = { readonly: 1n, nosuid: 2n, nodev: 4n, remount: 32n, bind: 4096n } as const;

/** Bound over each other, two paths lead to the same inode. */
const bound = async (source: string, target: string): Promise<boolean> => {
  const [from, to] = await Promise.all([source, target].map((where) => stat(where).catch(() => undefined)));
  return from !== undefined && to !== undefined && from.dev === to.dev && from.ino === to.ino;
};

/** A device node that nobody made is a bound one: a block volume's target. */
const isDevice = async (target: string): Promise<boolean> =>
  (await stat(target).catch(() => undefined))?.isBlockDevice() ?? false;

/**
 * By mount(2) and umount(2) themselves: microseconds instead of two processes a call, so that a benchmark measures its
 * subject and not the plugin. Needs `node --experimental-ffi`.
 */
export const openNativeMounter = (): Mounter => {
  const { functions } = dlopen(null, {
    mount: { return: "i32", arguments: ["string", "string", "string", "u64", "pointer"] },
    umount2: { return: "i32", arguments: ["string", "i32"] },
  });
  const mount = (source: string, target: string, how: bigint): void => {
    if (functions.mount(source, target, "none", how, 0n) !== 0) throw new Error(`mount ${source} on ${target} failed`);
  };
  return {
    bind: async (source, target, readonly, options = []) => {
      if (await bound(source, target)) return;
      mount(source, target, flags.bind);
      let own = readonly ? flags.readonly : 0n;
      if (options.includes("nosuid")) own |= flags.nosuid;
      if (options.includes("nodev")) own |= flags.nodev;
      if (own !== 0n) mount(source, target, flags.remount | flags.bind | own);
    },
    unmount: async (source, target) => {
      while ((await bound(source, target)) || (await isDevice(target)))
        if (functions.umount2(target, 0) !== 0) throw new Error(`umount ${target} failed`);
    },
  };
};
