/**
 * Mounts by mount(8) and umount(8), as children that can be killed. Helpers and utab are left out, and no path is resolved by them:
 * resolving looks at the path itself, and behind it may be a device that does not answer.
 *
 * M1 A mount that fails, or whose caller gave up, leaves nothing mounted.
 * M2 A read-only target is never seen writable, here or in another mount namespace: it is bound from what is read-only already. Bound
 *    first and made read-only then, as mount(8) does before 2.39, its copies in other namespaces would stay writable for ever.
 * M3 A read-only bind keeps nosuid, nodev and all else that its source has; `--bind -o ro` drops them.
 */
import { lstat, mkdir, readFile } from "node:fs/promises";
import path from "node:path";
import { type MountLine, parseMountinfo } from "@holdfast/model/mountinfo";
import { DriverError } from "../domain/driver-error.ts";
import type { MountEntry, Mounts } from "../ports.ts";
import { canonicalPath } from "./canonical-path.ts";
import { coveringMount, rootOf } from "./covering-mount.ts";
import { deviceNumbers } from "./file-identity.ts";
import { errnoOf, hostFailure, throwIfGivenUp } from "./host-failure.ts";
import type { RunTool } from "./run-tool.ts";

export interface MountsOptions {
  readonly run: RunTool;
  /** Has the place where read-only binds are prepared. */
  readonly stateDir: string;
  readonly proc?: string;
}

/** util-linux: the mount or the unmount itself failed. */
const systemCallFailed = [0, 1, 32];
/** Of one mount, as the table spells them and mount(8) takes them. */
const perMount = new Set(["nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime", "nosymfollow"]);
/** Where device nodes are: a host's /dev, or a container's own. */
const inMemory = new Set(["devtmpfs", "tmpfs"]);
const never = () => new AbortController().signal;

/** Where read-only binds are prepared; whatever is mounted there is nobody's. */
export const bindingPlace = (stateDir: string): string => path.join(stateDir, "binding");

export function createMounts({ run, stateDir, proc = "/proc" }: MountsOptions): Mounts {
  let binding: Promise<unknown> = Promise.resolve();

  const lines = async (): Promise<readonly MountLine[]> => {
    try {
      return parseMountinfo(await readFile(path.join(proc, "self/mountinfo"), "utf8"));
    } catch (error) {
      throw hostFailure("read the mount table", error);
    }
  };
  const at = async (place: string): Promise<readonly MountLine[]> =>
    (await lines()).filter((line) => line.path === place);

  const mount = async (args: readonly string[], signal: AbortSignal): Promise<void> => {
    await run("mount", ["-i", "-n", "-c", ...args], { signal });
  };

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
  const orNothing = async (place: string, act: () => Promise<void>): Promise<void> => {
    const before = (await at(place)).length;
    try {
      await act();
    } catch (error) {
      if ((await at(place)).length > before) await unmount(place, never()); // M1
      throw error;
    }
  };

  const bind = (source: string, place: string, signal: AbortSignal) =>
    orNothing(place, () => mount(["--bind", "--", source, place], signal));

  /** One at a time: there is one place for it, so that a killed life leaves one mount at most. */
  const bindReadonly = async (source: string, place: string, signal: AbortSignal): Promise<void> => {
    const hidden = await canonicalPath(bindingPlace(stateDir));
    await mkdir(hidden, { mode: 0o700 }).catch((error: unknown) => {
      if (errnoOf(error) !== "EEXIST") throw hostFailure(`make ${hidden}`, error);
    });
    while ((await at(hidden)).length > 0) await unmount(hidden, signal);
    await bind(source, hidden, signal);
    try {
      const flags = (await at(hidden)).at(-1)?.options.filter((option) => perMount.has(option)) ?? []; // M3
      await mount(["-o", ["remount", "bind", "ro", ...flags].join(","), "--", hidden], signal);
      if ((await at(hidden)).at(-1)?.options.includes("ro") !== true)
        throw new DriverError(
          "INTERNAL",
          `${source} could not be made read-only for ${place}; nothing was mounted there`,
        );
      await bind(hidden, place, signal); // M2
    } finally {
      await unmount(hidden, never());
    }
  };

  return {
    table: async () => (await lines()).map(portable),
    mountDevice: async (device, target, { fsType, options }, signal) => {
      const place = await canonicalPath(target);
      // Without -w a device that refuses writes would be mounted read-only, with success.
      const mode = options.includes("ro") ? [] : ["-w"];
      const flags = options.length === 0 ? [] : ["-o", options.join(",")];
      await orNothing(place, () => mount([...mode, "-t", fsType, ...flags, "--", device, place], signal));
    },
    bind: async (source, target, { readonly }, signal) => {
      const place = await canonicalPath(target);
      // A read-only bind of a device node would not stop a write to the device; its own read-only flag does.
      if (!readonly || source.startsWith("/dev/")) return bind(source, place, signal);
      const turn = binding.then(() => bindReadonly(source, place, signal));
      binding = turn.catch(() => undefined);
      return turn;
    },
    unmount,
    identityOf: async (file) => {
      const place = await canonicalPath(file);
      const covering = coveringMount(await lines(), place);
      if (covering === undefined)
        throw new DriverError("INTERNAL", `the mount table of this node does not tell what ${place} is on`);
      return { dev: covering.device, root: rootOf(covering, place) };
    },
    deviceAt: async ({ mountPoint, fsType }) => {
      // Elsewhere a look could wait for a disk, or for what is behind a volume.
      if (!inMemory.has(fsType)) return undefined;
      const facts = await lstat(mountPoint, { bigint: true }).catch(() => undefined);
      return facts?.isBlockDevice() ? deviceNumbers(facts.rdev) : undefined;
    },
  };
}

const portable = ({ path, root, device, fsType, source, options, superOptions }: MountLine): MountEntry => ({
  mountPoint: path,
  root,
  dev: device,
  fsType,
  source,
  options,
  superOptions: superOptions.split(","),
});
