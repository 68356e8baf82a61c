/**
 * Directories under the agent's root, made and removed without following anything that somebody else could have put there.
 *
 * H1 Every component is opened without following links and checked: a directory, ours, writable by nobody else.
 * H2 Making and removing go through the opened directory, so that a swap after the check changes nothing.
 * H3 Removal takes an empty directory or an empty file, never what is in one: it may be a mount that nobody saw, or data.
 */
import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { lstat, mkdir, readFile, rmdir, stat, unlink } from "node:fs/promises";
import path from "node:path";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { HostDirs } from "../ports.ts";

/** Linux; Node has no name for it. Opens a place without opening what is there. */
const pathOnly = 0o10000000;
const flags = pathOnly | constants.O_DIRECTORY | constants.O_NOFOLLOW;

const directoryMode = 0o711;

export interface HostDirsOptions {
  readonly root: string;
  readonly log: Logger;
  /** Who may own what lies above the root, besides us: the unmapped owner inside a user namespace. */
  readonly alsoTrusted: readonly number[];
}

/** Makes the root, staging/ and publish/, and checks all that lies above. */
export async function openHostDirs({ root, log, alsoTrusted }: HostDirsOptions): Promise<HostDirs> {
  const owners = [0, ...alsoTrusted];
  await mkdir(root, { recursive: true, mode: directoryMode });
  closeSync(walk(root, owners));
  for (const name of ["staging", "publish"]) await makeBelow(path.join(root, name));

  /** Opens the directory that holds `at`, makes nothing. */
  async function inParent<T>(at: string, act: (entry: string) => Promise<T>): Promise<T> {
    const parent = walk(path.dirname(at), owners);
    try {
      return await act(`/proc/self/fd/${parent}/${path.basename(at)}`); // H2
    } finally {
      closeSync(parent);
    }
  }

  async function makeBelow(at: string): Promise<void> {
    await inParent(at, async (entry) => {
      try {
        await mkdir(entry, directoryMode);
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw error;
      }
      // Looked at again by its own name: what is there now is what the plugin will be told.
      const made = openDirectory(entry, at);
      try {
        check(made, at, [0]);
      } finally {
        closeSync(made);
      }
    });
  }

  return {
    makeStaging: makeBelow,
    makeParent: (target) => makeBelow(path.dirname(target)),
    async removeTarget(at) {
      await inParent(at, async (entry) => {
        const found = await lstat(entry).catch(absent);
        if (found === undefined) return;
        // H3
        if (found.isDirectory()) await rmdir(entry);
        else if (found.isFile() && found.size === 0) await unlink(entry);
        else log.warn("a plugin left something at a target; it stays", { path: at, size: found.size });
      }).catch((error: unknown) => leave(at, error));
    },
    async removeDirectory(at) {
      await inParent(at, (entry) => rmdir(entry)).catch((error: unknown) => leave(at, error));
    },
    async deviceNumber(name) {
      const found = await stat(name).catch(() => undefined);
      if (found === undefined || !found.isBlockDevice()) return undefined;
      return { major: majorOf(found.rdev), minor: minorOf(found.rdev) };
    },
  };

  function leave(at: string, error: unknown): void {
    if (codeOf(error) === "ENOENT") return;
    log.warn("a directory that is no longer needed stays", { path: at, code: codeOf(error) });
  }
}

/**
 * H1. The answer is an open descriptor and has to be closed. Synchronous on purpose: these are directories of root on the
 * agent's own file system, microseconds each, and a turn through the thread pool for every one of them costs a claim
 * milliseconds.
 */
function walk(directory: string, owners: readonly number[]): number {
  let at = "/";
  let descriptor = openSync(at, flags);
  try {
    check(descriptor, at, owners);
    for (const name of directory.split("/").filter((part) => part !== "")) {
      at = path.join(at, name);
      const next = openDirectory(`/proc/self/fd/${descriptor}/${name}`, at);
      closeSync(descriptor);
      descriptor = next;
      check(descriptor, at, owners);
    }
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
    throw unsafe(at, `is no directory, or a link (${codeOf(error)})`);
  }
}

function check(descriptor: number, at: string, owners: readonly number[]): void {
  const { uid, mode } = fstatSync(descriptor);
  if (!owners.includes(uid)) throw unsafe(at, `belongs to user ${uid}`);
  // In a sticky directory others may add names, and can neither rename nor remove ours.
  const sticky = (mode & 0o1000) !== 0;
  if ((mode & 0o022) !== 0 && !sticky) {
    throw unsafe(at, `can be written by others (mode ${(mode & 0o7777).toString(8)})`);
  }
}

function unsafe(at: string, why: string): HoldfastError {
  const message = `${at} ${why}: volumes are mounted only below directories that root alone can change`;
  return new HoldfastError({ kind: "precondition", reason: "HOST_PATH_UNSAFE", message, metadata: { path: at } });
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error);

function absent(error: unknown): undefined {
  if (codeOf(error) === "ENOENT") return undefined;
  throw error;
}

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
