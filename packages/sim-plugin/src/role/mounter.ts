import { mountsAt } from "./mount-table.ts";
import { run } from "./run.ts";

/** How the plugin binds one path over another. Both calls may be repeated. */
export interface Mounter {
  /** `options`: of the capability; those of the mount itself are heeded, nosuid and nodev. */
  bind(source: string, target: string, readonly: boolean, options?: readonly string[]): Promise<void>;
  /** Nothing of `source` stands on `target` any more. */
  unmount(source: string, target: string): Promise<void>;
}

/** By mount(8) and umount(8), as most plugins do it. */
export const commandMounter: Mounter = {
  bind: async (source, target, readonly, options = []) => {
    if ((await mountsAt(target)) > 0) return;
    const heeded = options.filter((option) => option === "nosuid" || option === "nodev");
    await run("mount", ["-o", ["bind", ...(readonly ? ["ro"] : []), ...heeded].join(","), source, target]);
  },
  /** A mount may stand on a path twice, by propagation or by an older life of the plugin. */
  unmount: async (_source, target) => {
    for (let left = await mountsAt(target); left > 0; left = await mountsAt(target)) await run("umount", [target]);
  },
};
