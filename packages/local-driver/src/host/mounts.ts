/**
 * Mounts by mount(8) and umount(8), as children that can be killed. Helpers and utab are left out, and no path is resolved by them:
 * resolving looks at the path itself, and behind it may be a device that does not answer.
 *
 * M1 A mount that fails, or whose caller gave up, leaves nothing mounted.
 * M2 Read-only is checked in the table before it is answered.
 */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { DriverError } from "../domain/driver-error.ts";
import type { MountEntry, Mounts } from "../ports.ts";
import { canonicalPath } from "./canonical-path.ts";
import { hostFailure, throwIfGivenUp } from "./host-failure.ts";
import { coveringMount, type MountLine, parseMountinfo, rootOf } from "./mountinfo.ts";
import type { RunTool } from "./run-tool.ts";

/** util-linux: the mount or the unmount itself failed. */
const systemCallFailed = [0, 1, 32];
const never = () => new AbortController().signal;

export function createMounts({ run, proc = "/proc" }: { readonly run: RunTool; readonly proc?: string }): Mounts {
  const lines = async (): Promise<readonly MountLine[]> => {
    try {
      return parseMountinfo(await readFile(path.join(proc, "self/mountinfo"), "utf8"));
    } catch (error) {
      throw hostFailure("read the mount table", error);
    }
  };
  const at = async (place: string): Promise<readonly MountLine[]> =>
    (await lines()).filter((line) => line.mountPoint === place);

  const unmount = async (target: string, signal: AbortSignal): Promise<void> => {
    throwIfGivenUp(`unmount ${target}`, signal);
    const place = await canonicalPath(target);
    const before = await at(place);
    if (before.length === 0) return;
    const { code, stderr } = await run("umount", ["-i", "-n", "-c", "--", place], { signal, judges: systemCallFailed });
    if (code === 0 || (await at(place)).length < before.length) return;
    const busy = /busy/.test(stderr);
    throw new DriverError(
      busy ? "FAILED_PRECONDITION" : "INTERNAL",
      busy
        ? `${place} cannot be unmounted: it is in use (fuser -vm ${place} tells by whom); end that and repeat the call`
        : `${place} cannot be unmounted: ${stderr}; look at the kernel log of this node`,
    );
  };

  /** Runs what mounts; takes off again whatever it has put there when it fails. */
  const orNothing = async (place: string, mount: () => Promise<void>): Promise<void> => {
    const before = (await at(place)).length;
    try {
      await mount();
    } catch (error) {
      if ((await at(place)).length > before) await unmount(place, never()); // M1
      throw error;
    }
  };

  return {
    table: async () => (await lines()).map(portable),
    mountDevice: async (device, target, { fsType, options }, signal) => {
      const place = await canonicalPath(target);
      // Without -w a device that refuses writes would be mounted read-only, with success.
      const mode = options.includes("ro") ? [] : ["-w"];
      const flags = options.length === 0 ? [] : ["-o", options.join(",")];
      await orNothing(place, async () => {
        await run("mount", ["-i", "-n", "-c", ...mode, "-t", fsType, ...flags, "--", device, place], { signal });
      });
    },
    bind: async (source, target, { readonly }, signal) => {
      const place = await canonicalPath(target);
      const flags = readonly ? ["-o", "ro"] : [];
      await orNothing(place, async () => {
        await run("mount", ["-i", "-n", "-c", "--bind", ...flags, "--", source, place], { signal });
        if (!readonly || (await at(place)).at(-1)?.options.includes("ro") === true) return;
        throw new DriverError(
          "INTERNAL",
          `the bind of ${source} on ${place} did not become read-only, so it was undone; util-linux 2.27 or newer is needed`,
        ); // M2
      });
    },
    unmount,
    identityOf: async (file) => {
      const place = await canonicalPath(file);
      const mount = coveringMount(await lines(), place);
      if (mount === undefined)
        throw new DriverError("INTERNAL", `the mount table of this node does not tell what ${place} is on`);
      return { dev: mount.dev, root: rootOf(mount, place) };
    },
  };
}

const portable = ({ mountPoint, root, dev, fsType, source, options, superOptions }: MountLine): MountEntry => ({
  mountPoint,
  root,
  dev,
  fsType,
  source,
  options,
  superOptions,
});
