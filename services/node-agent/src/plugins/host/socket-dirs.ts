/**
 * One directory of its own for the socket of each hosted instance. Its name is a hash of the allocation, which is opaque; where one
 * plugin of the allocation has that already, the name of another one ends with a hash of the plugin.
 *
 * D1 A directory is used only when it is a directory, ours, and writable by nobody else; links are never followed.
 * D2 Removal takes the socket and the empty directory, never anything else that lies there.
 * D3 A plugin that runs keeps its socket, also when the journal that knew it was lost: its runner prepares it again.
 * D4 The directories of one base are one agent's. What another agent does not know is not a left-over: between the death of a
 *    plugin and its restart nobody listens on its socket, and without its directory it never would again.
 * D5 The name for the first plugin of an allocation is as it was when an allocation had one plugin: what runs goes on.
 */
import { hash } from "node:crypto";
import { chmod, lstat, mkdir, readdir, rmdir, stat, unlink } from "node:fs/promises";
import { connect } from "node:net";
import path from "node:path";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { maxSocketPathBytes } from "@holdfast/shared/grpc/listen-address";
import { type DirectoryLock, DirectoryTaken, takeDirectoryLock } from "@holdfast/shared/lock/directory-lock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Place } from "../../domain/plugin-registry.ts";
import { makeDirectories } from "../../volumes/durable-files.ts";

export interface SocketDirs {
  directoryOf(...place: Place): string;
  socketOf(...place: Place): string;
  /** Whether there is a directory, whoever made it. */
  has(...place: Place): Promise<boolean>;
  /** Rejects with HOSTED_PLUGIN_DIR_TAKEN while another agent has the base. Made twice, it is the same. */
  make(...place: Place): Promise<void>;
  remove(...place: Place): Promise<void>;
  /**
   * Removes what a plugin of the allocation left, or all of them when none is named, but what `held` says when it comes to that. A
   * plugin without a place of its own had that of the allocation.
   */
  removeLeft(allocation: string, plugin: string | undefined, held: () => readonly Place[]): Promise<void>;
  /** Removes what instances left that are not known any more; a socket on which somebody listens stays. */
  sweep(known: readonly Place[]): Promise<void>;
  /** Lets go of the base, once nothing is done in it any more. */
  close(): Promise<void>;
}

const socketName = "csi.sock";
const nameChars = 32;
const namePattern = /^[0-9a-f]{32}$/;
const stays = "the socket directory of a plugin that is gone stays";

const hashed = (text: string): string => hash("sha256", text, "hex").slice(0, nameChars);
/** With which the names of all places of an allocation begin. */
const startOf = (allocation: string): string => hashed(allocation).slice(0, nameChars / 2);
const nameOf = (...[allocation, plugin]: Place): string =>
  plugin === undefined ? hashed(allocation) : `${startOf(allocation)}${hashed(plugin).slice(0, nameChars / 2)}`; // D5

/** The longest base that leaves room for the rest of a socket's path. */
export const maxSocketBaseBytes = maxSocketPathBytes - 1 - nameChars - 1 - socketName.length;

export function createSocketDirs({
  base,
  ownUid,
  log,
}: {
  readonly base: string;
  readonly ownUid: number;
  readonly log: Logger;
}): SocketDirs {
  const directoryOf = (...place: Place): string => path.join(base, nameOf(...place));
  const has = (...place: Place): Promise<boolean> =>
    lstat(directoryOf(...place)).then(
      () => true,
      () => false,
    );

  const lanes = createKeyedLanes();
  let held: { readonly identity: string; readonly lock: DirectoryLock } | undefined;
  let closed = false;

  /** All that touches the base, one after the other: of two that take it at once, one would find it taken. */
  const inTurn = <T>(act: () => Promise<T>): Promise<T> => lanes.run("base", undefined, act);

  /** D4. Kept from the first use to the end; a base that was replaced meanwhile is taken anew. */
  const take = async (): Promise<void> => {
    if (closed) throw new DOMException("the plugin host is closed", "AbortError");
    const { dev, ino } = await stat(base, { bigint: true });
    const identity = `${dev}:${ino}`;
    if (held?.identity === identity) return;
    held?.lock.release();
    held = undefined;
    try {
      held = { identity, lock: await takeDirectoryLock(base) };
    } catch (error) {
      throw error instanceof DirectoryTaken ? takenBy(base, error.pid) : error;
    }
  };

  const mine = async (otherwise: string): Promise<boolean> => {
    try {
      await take();
      return true;
    } catch (error) {
      if (codeOf(error) !== "ENOENT") log.warn(otherwise, { directory: base, error });
      return false;
    }
  };

  const removeAt = async (directory: string): Promise<void> => {
    const socket = path.join(directory, socketName);
    try {
      if ((await lstat(socket).catch(() => undefined))?.isSocket() === true) await unlink(socket); // D2
      await rmdir(directory);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") log.warn(stays, { directory, code: codeOf(error) });
    }
  };

  return {
    directoryOf,
    socketOf: (...place) => path.join(directoryOf(...place), socketName),
    has,
    make: (...place) =>
      inTurn(async () => {
        await makeDirectories(base, 0o700);
        await take();
        const directory = directoryOf(...place);
        await mkdir(directory, { mode: 0o700 }).catch((error: unknown) => {
          if (codeOf(error) !== "EEXIST") throw error;
        });
        for (const at of [base, directory]) {
          const found = await lstat(at);
          const ours = found.isDirectory() && (found.uid === 0 || found.uid === ownUid);
          if (!ours) throw unsafe(at, "is no directory of root or of the agent's own user"); // D1
          // A mode that a careless umask or somebody's chmod widened is narrowed again; only the owner can.
          if ((found.mode & 0o022) !== 0) await chmod(at, 0o700);
        }
      }),
    remove: (...place) =>
      inTurn(async () => {
        if (await mine(stays)) await removeAt(directoryOf(...place));
      }),
    removeLeft: (allocation, plugin, held) =>
      inTurn(async () => {
        if (!(await mine(stays))) return;
        const start = startOf(allocation);
        const one = async (of: string): Promise<Place> =>
          (await has(allocation, of)) ? [allocation, of] : [allocation];
        const names =
          plugin === undefined
            ? (await readdir(base)).filter((name) => namePattern.test(name) && name.startsWith(start))
            : [nameOf(...(await one(plugin)))];
        const kept = new Set(held().map((place) => nameOf(...place)));
        for (const name of names) if (!kept.has(name)) await removeAt(path.join(base, name));
      }),
    sweep: (known) =>
      inTurn(async () => {
        if (!(await mine("nothing is tidied, and no plugin can be prepared"))) return;
        const names = await readdir(base).catch(() => [] as string[]);
        const kept = new Set(known.map((place) => nameOf(...place)));
        for (const name of names) {
          if (!namePattern.test(name) || kept.has(name)) continue;
          const directory = path.join(base, name);
          // D3
          if (await isListenedOn(path.join(directory, socketName)))
            log.warn("a plugin runs that nobody prepared: prepare its allocation again, or stop it", { directory });
          else await removeAt(directory);
        }
      }),
    close: () =>
      inTurn(async () => {
        closed = true;
        held?.lock.release();
        held = undefined;
      }),
  };
}

function isListenedOn(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const client = connect(socket);
    const end = (answer: boolean): void => {
      client.destroy();
      resolve(answer);
    };
    client.once("connect", () => end(true));
    // A queue that is full, or a right that is missing, is a listener too.
    client.once("error", (error) => end(!["ENOENT", "ECONNREFUSED", "ENOTSOCK"].includes(codeOf(error))));
  });
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error);

function takenBy(base: string, pid: string | undefined): HoldfastError {
  const holder = pid === undefined ? "" : ` (pid ${pid})`;
  const message = `another agent${holder} hosts its plugins in ${base}: give this one a directory of its own, HOLDFAST_HOSTED_PLUGIN_DIR`;
  return new HoldfastError({
    kind: "precondition",
    reason: "HOSTED_PLUGIN_DIR_TAKEN",
    message,
    metadata: { path: base },
  });
}

function unsafe(at: string, why: string): HoldfastError {
  const message = `${at} ${why}: remove it, plugins' sockets lie only where nobody else can put one`;
  return new HoldfastError({ kind: "precondition", reason: "HOST_PATH_UNSAFE", message, metadata: { path: at } });
}
