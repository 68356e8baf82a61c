/**
 * Directories under the agent's root, made and removed without following anything that somebody else could have put there.
 *
 * H1 Every component is looked at without following links and checked: a directory, ours, writable by nobody else. What lies above the two
 *    directories that are held open, only once a second: it takes a process of root to change what the check had found.
 * H2 Making and removing go through an opened directory, so that a swap after the check changes nothing.
 * H3 Removal takes an empty directory or an empty file, never what is in one: it may be a mount that nobody saw, or data.
 * H4 What could be removed had nothing mounted on it: for a mount point of this namespace the kernel answers EBUSY. That spares a look at
 *    the mount table, which takes the longer the more is mounted on the host.
 *
 * Looking and making are synchronous on purpose: these are directories of root on the agent's own file system, microseconds
 * each, and a turn through the thread pool for every one of them costs a claim milliseconds. Nothing that may be mounted is
 * touched so: mkdir(2) and rmdir(2) of a mount point answer EEXIST and EBUSY without asking what is mounted. Removing what
 * is there now and then waits milliseconds for the disk, which is for the thread pool; on a tmpfs it waits for nothing.
 */
import { closeSync, constants, fstatSync, lstatSync, mkdirSync, openSync, rmdirSync } from "node:fs";
import { lstat, mkdir, readFile, rmdir, stat, statfs, unlink } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "@holdfast/shared/async/clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { HostDirs } from "../ports.ts";

/** Linux; Node has no name for it. Opens a place without opening what is there. */
const pathOnly = 0o10000000;
const flags = pathOnly | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** TMPFS_MAGIC of linux/magic.h. */
const tmpfsMagic = 0x01021994;

const directoryMode = 0o711;
const targetMode = 0o000;

export interface HostDirsOptions {
  readonly root: string;
  readonly log: Logger;
  /** Who may own what lies above the root, besides us: the unmapped owner inside a user namespace. */
  readonly alsoTrusted: readonly number[];
  readonly clock: Pick<Clock, "monotonic">;
}

const lookAboveEveryMs = 1_000;

/** Makes the root, staging/ and publish/, and checks all that lies above. */
export async function openHostDirs({ root, log, alsoTrusted, clock }: HostDirsOptions): Promise<HostDirs> {
  const owners = [0, ...alsoTrusted];
  await mkdir(root, { recursive: true, mode: directoryMode });
  const inMemory = (await statfs(root)).type === tmpfsMagic;
  const held = new Map<string, HeldDirectory>();
  for (const name of ["staging", "publish"]) {
    const at = path.join(root, name);
    makeBelow(at);
    held.set(at, holdDirectory(at, owners, clock));
  }

  /** The directory that holds `at`, opened for the caller to close; nothing is made. */
  function openParent(at: string): number {
    const directory = path.dirname(at);
    const own = held.get(directory);
    if (own !== undefined) return openDirectory(`/proc/self/fd/${own.checked()}/.`, directory);
    const above = held.get(path.dirname(directory));
    return above === undefined
      ? walk(directory, owners)
      : openChecked(entryIn(above.checked(), directory), directory, owners);
  }

  /** Within one turn: what is held then stays open. */
  function inParent(at: string, act: (entry: string) => void): void {
    const own = held.get(path.dirname(at));
    if (own !== undefined) {
      act(entryIn(own.checked(), at));
      return;
    }
    const parent = openParent(at);
    try {
      act(entryIn(parent, at));
    } finally {
      closeSync(parent);
    }
  }

  function makeBelow(at: string): void {
    inParent(at, (entry) => {
      try {
        mkdirSync(entry, directoryMode);
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw error;
      }
      // Looked at again by its own name: what is there now is what the plugin will be told.
      check(lstatSync(entry), at, [0]);
    });
  }

  /** What is there may be a mount: it is not looked at. The parent was made, and checked, just before. */
  function makeClosed(at: string): void {
    inParent(at, (entry) => {
      try {
        mkdirSync(entry, targetMode);
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw error;
      }
    });
  }

  /** H4: it is gone, or was not there. */
  function vacated(at: string): boolean {
    try {
      inParent(at, (entry) => rmdirSync(entry)); // H3
      return true;
    } catch (error) {
      return codeOf(error) === "ENOENT";
    }
  }

  /** Through the thread pool, and with a descriptor of its own: what is held may be another one meanwhile. */
  async function removeBelow(at: string, remove: (entry: string) => Promise<void>): Promise<void> {
    let parent: number | undefined;
    try {
      parent = openParent(at);
      await remove(entryIn(parent, at));
    } catch (error) {
      if (codeOf(error) !== "ENOENT")
        log.warn("a directory that is no longer needed stays", { path: at, code: codeOf(error) });
    } finally {
      if (parent !== undefined) closeSync(parent);
    }
  }

  return {
    async makeStaging(at) {
      makeBelow(at);
    },
    async makeParent(target) {
      makeBelow(path.dirname(target));
    },
    async makeTarget(at) {
      makeClosed(at);
    },
    vacate: async (at) => vacated(at),
    async removeTarget(at) {
      // Most plugins leave nothing, and then nothing has to wait.
      if (vacated(at)) return;
      await removeBelow(at, async (entry) => {
        const found = await lstat(entry);
        // H3
        if (found.isDirectory()) await rmdir(entry);
        else if (found.isFile() && found.size === 0) await unlink(entry);
        else log.warn("a plugin left something at a target; it stays", { path: at, size: found.size });
      });
    },
    async removeDirectory(at) {
      if (!inMemory || !vacated(at)) await removeBelow(at, rmdir); // H3
    },
    deviceNumber: numberOf,
    async deviceReadOnly(name) {
      const number = await numberOf(name);
      const text = number === undefined ? "" : await kernelSays(number, "ro");
      return text === "" ? undefined : text === "1";
    },
    async deviceBytes(number) {
      const sectors = await kernelSays(number, "size");
      return sectors === "" ? undefined : BigInt(sectors) * sectorBytes;
    },
  };
}

/** What the kernel counts devices in, whatever their own blocks are. */
const sectorBytes = 512n;

/** Of a block device, in sysfs: no question to the device itself, which may hang. Empty: the kernel does not say. */
async function kernelSays({ major, minor }: { major: number; minor: number }, what: string): Promise<string> {
  const text = await readFile(`/sys/dev/block/${major}:${minor}/${what}`, "utf8").catch(() => "");
  return text.trim();
}

/** Of a node in devtmpfs: the kernel's own memory. */
async function numberOf(name: string) {
  const found = await stat(name).catch(() => undefined);
  if (found === undefined || !found.isBlockDevice()) return undefined;
  return { major: majorOf(found.rdev), minor: minorOf(found.rdev) };
}

interface HeldDirectory {
  /** Its descriptor, after a look at the whole path. */
  checked(): number;
}

/**
 * H1 for a directory that is used again and again: what is held open is what the path leads to as long as both are the same
 * inode. A directory that was put in its place is opened and held instead.
 */
function holdDirectory(directory: string, owners: readonly number[], clock: HostDirsOptions["clock"]): HeldDirectory {
  const above = prefixesOf(path.dirname(directory));
  let descriptor = walk(directory, owners);
  let held = fstatSync(descriptor, { bigint: true });
  let lookedAbove = Number.NEGATIVE_INFINITY;
  const lookAbove = (): void => {
    const now = clock.monotonic();
    if (now - lookedAbove < lookAboveEveryMs) return;
    for (const at of above) check(lstatSync(at), at, owners);
    lookedAbove = now;
  };
  return {
    checked() {
      lookAbove();
      const now = lstatSync(directory, { bigint: true });
      if (now.ino !== held.ino || now.dev !== held.dev) {
        const next = walk(directory, owners);
        closeSync(descriptor);
        descriptor = next;
        held = fstatSync(descriptor, { bigint: true });
      } else check({ uid: Number(now.uid), mode: Number(now.mode) }, directory, owners);
      return descriptor;
    },
  };
}

/** "/", "/a", "/a/b" */
function prefixesOf(directory: string): readonly string[] {
  const parts = directory.split("/").filter((part) => part !== "");
  return ["/", ...parts.map((_, at) => `/${parts.slice(0, at + 1).join("/")}`)];
}

/** H1. The answer is an open descriptor and has to be closed. */
function walk(directory: string, owners: readonly number[]): number {
  const [top = "/", ...below] = prefixesOf(directory);
  let descriptor = openChecked(top, top, owners);
  for (const at of below) {
    try {
      const next = openChecked(entryIn(descriptor, at), at, owners);
      closeSync(descriptor);
      descriptor = next;
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
  }
  return descriptor;
}

/** H2 */
const entryIn = (descriptor: number, at: string): string => `/proc/self/fd/${descriptor}/${path.basename(at)}`;

function openChecked(entry: string, at: string, owners: readonly number[]): number {
  const descriptor = openDirectory(entry, at);
  try {
    check(fstatSync(descriptor), at, owners);
    return descriptor;
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

function openDirectory(entry: string, at: string): number {
  try {
    return openSync(entry, flags);
  } catch (error) {
    if (codeOf(error) === "ENOENT") throw error;
    throw unsafe(at, `is no directory, or a link (${codeOf(error)})`, `move it away: mv ${at} ${at}.old`);
  }
}

function check(found: { readonly uid: number; readonly mode: number }, at: string, owners: readonly number[]): void {
  const { uid, mode } = found;
  if ((mode & constants.S_IFMT) !== constants.S_IFDIR)
    throw unsafe(at, "is no directory, or a link", `move it away: mv ${at} ${at}.old`);
  if (!owners.includes(uid)) throw unsafe(at, `belongs to user ${uid}`, `chown root ${at}`);
  // In a sticky directory others may add names, and can neither rename nor remove ours.
  const sticky = (mode & 0o1000) !== 0;
  if ((mode & 0o022) !== 0 && !sticky) {
    throw unsafe(at, `can be written by others (mode ${(mode & 0o7777).toString(8)})`, `chmod go-w ${at}`);
  }
}

function unsafe(at: string, why: string, cure: string): HoldfastError {
  const message = `${at} ${why}: volumes are mounted only below directories that root alone can change`;
  return new HoldfastError({ kind: "precondition", reason: "HOST_PATH_UNSAFE", message, metadata: { path: at, cure } });
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error);

/** As the kernel packs them into 64 bits (glibc's gnu_dev_major and gnu_dev_minor). */
function majorOf(device: number): number {
  const bits = BigInt(device);
  return Number(((bits >> 8n) & 0xfffn) | ((bits >> 32n) & 0xfffff000n));
}

function minorOf(device: number): number {
  const bits = BigInt(device);
  return Number((bits & 0xffn) | ((bits >> 12n) & 0xffffff00n));
}

/** In a user namespace the host's root shows as the overflow user: what it owns there is as safe as ever. */
export async function trustedOwners(proc = "/proc"): Promise<readonly number[]> {
  const map = await readFile(`${proc}/self/uid_map`, "utf8");
  if (/^\s*0\s+0\s+4294967295\s*$/.test(map)) return [];
  return [Number((await readFile(`${proc}/sys/kernel/overflowuid`, "utf8")).trim())];
}
