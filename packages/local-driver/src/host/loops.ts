/**
 * Loop devices by losetup.
 *
 * L1 One attach at a time, and at most one device for each image and way (read-write, read-only): two would have two caches.
 * L2 A device is let go of only while it is bound to this image: its number may be another volume's in the next moment, so it is held
 *    open from the look to the order.
 * L3 An attach that fails leaves no device behind.
 * L4 A device is an image's by the device and inode of its file. Only an image that was deleted is known by its name.
 */
import { open } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { DriverError } from "../domain/driver-error.ts";
import type { LoopDevice, Loops } from "../ports.ts";
import { canonicalPath } from "./canonical-path.ts";
import { deviceHolders } from "./device-holders.ts";
import { identityOfFile } from "./file-identity.ts";
import { errnoOf, givenUp, hostFailure, throwIfGivenUp } from "./host-failure.ts";
import { type LoopFile, loopFiles } from "./loop-files.ts";
import { type BoundLoop, readLoop } from "./loop-sysfs.ts";
import type { RunTool } from "./run-tool.ts";

export interface LoopsOptions {
  readonly run: RunTool;
  readonly sys?: string;
  readonly proc?: string;
  /** For whoever opens every new device for a moment, as udev does. */
  readonly patienceMs?: number;
}

/** How the kernel marks the path of a file that has no name any more. */
const deletedMark = " (deleted)";
const firstWaitMs = 1;
const longestWaitMs = 50;
const never = () => new AbortController().signal;

export function createLoops({ run, sys = "/sys", proc = "/proc", patienceMs = 3000 }: LoopsOptions): Loops {
  let attaching: Promise<unknown> = Promise.resolve();

  /** All devices that are bound to this file, given by its canonical path. */
  const boundTo = async (image: string, signal: AbortSignal): Promise<readonly LoopFile[]> => {
    const identity = await identityOfFile(image);
    const isBacking = (loop: LoopFile) =>
      identity === undefined ? loop.backingFile === `${image}${deletedMark}` : loop.identity === identity; // L4
    return (await loopFiles({ run, sys }, signal)).filter(isBacking);
  };

  const attachOne = async (image: string, readonly: boolean, signal: AbortSignal): Promise<LoopDevice> => {
    throwIfGivenUp(`attach ${image}`, signal);
    const before = await boundTo(image, signal);
    const leaving = before.find((loop) => loop.leaving);
    // Used again, it would go under its new user; beside it a second device would have a cache of its own.
    if (leaving !== undefined) throw await stillHeld(leaving, image); // L1
    const found = before.find((loop) => loop.readonly === readonly);
    if (found !== undefined) return portable(found); // L1
    try {
      const args = ["--find", "--show", ...(readonly ? ["--read-only"] : []), "--", image];
      const { stdout } = await run("losetup", args, { signal });
      return portable(await asWanted(stdout.trim(), image, readonly, signal));
    } catch (error) {
      await letGoOfNew(image, before); // L3
      throw error;
    }
  };

  /** `blockdev --setro` on a device outlives its binding, and then refuses the writes of the next volume that gets the number. */
  const asWanted = async (
    device: string,
    image: string,
    readonly: boolean,
    signal: AbortSignal,
  ): Promise<BoundLoop> => {
    const ofImage = async () => {
      const all = await boundTo(image, signal);
      const twin = all.find((loop) => loop.device !== device && loop.readonly === readonly);
      if (twin !== undefined) throw twice(image, device, twin.device); // L1
      return all.find((loop) => loop.device === device);
    };
    const bound = await ofImage();
    if (bound?.readonly === readonly) return bound;
    if (bound !== undefined) await run("blockdev", [readonly ? "--setro" : "--setrw", device], { signal });
    const again = bound && (await ofImage());
    if (again?.readonly === readonly) return again;
    throw new DriverError(
      "INTERNAL",
      `losetup answered ${device} for ${image}, and it is ${again === undefined ? "not bound to that file" : `bound ${again.readonly ? "read-only" : "read-write"}`}; repeat the call`,
    );
  };

  const letGoOfNew = async (image: string, before: readonly BoundLoop[]): Promise<void> => {
    const known = new Set(before.map((loop) => loop.device));
    const now = await boundTo(image, never()).catch(() => []);
    for (const loop of now.filter(({ device }) => !known.has(device)))
      await detach(loop, image, never()).catch(() => undefined);
  };

  const detach = async ({ device, dev }: LoopDevice, file: string, signal: AbortSignal): Promise<void> => {
    const image = await canonicalPath(file);
    const ofImage = async () => (await boundTo(image, signal)).find((loop) => loop.device === device);
    if ((await ofImage()) === undefined) return;
    const held = await open(device, "r").catch((error: unknown) => {
      if (errnoOf(error) === "ENXIO" || errnoOf(error) === "ENOENT") return undefined;
      throw hostFailure(`open ${device}`, error);
    });
    let bound: BoundLoop | undefined;
    try {
      bound = await ofImage();
      if (bound === undefined) return; // L2
      await run("losetup", ["--detach", device], { signal });
    } finally {
      await held?.close();
    }
    const { backingFile } = bound;
    await untilGone(() => readLoop(sys, device)?.backingFile === backingFile, { device, dev }, image, signal);
  };

  const untilGone = async (
    isBound: () => boolean,
    device: Pick<LoopDevice, "device" | "dev">,
    image: string,
    signal: AbortSignal,
  ) => {
    const end = performance.now() + patienceMs;
    for (let wait = firstWaitMs; isBound(); wait = Math.min(wait * 2, longestWaitMs)) {
      if (performance.now() > end) throw await stillHeld(device, image);
      await sleep(wait, undefined, { signal }).catch(() => {
        throw givenUp(`let go of ${device.device} (${image})`, signal);
      });
    }
  };

  const stillHeld = async (device: Pick<LoopDevice, "device" | "dev">, image: string): Promise<DriverError> => {
    const holders = await deviceHolders(proc, device);
    const who = holders.length === 0 ? "a process that cannot be seen from here has it open" : holders.join("; ");
    return new DriverError(
      "FAILED_PRECONDITION",
      `${device.device}, the device of ${image}, is still in use: ${who}; end that and repeat the call (the kernel lets go of it with the last user)`,
    );
  };

  return {
    of: async (image) => (await boundTo(await canonicalPath(image), never())).map(portable),
    attach: async (file, { readonly }, signal) => {
      const image = await canonicalPath(file);
      const turn = attaching.then(() => attachOne(image, readonly, signal)); // L1
      attaching = turn.catch(() => undefined);
      return turn;
    },
    detach,
    refresh: async ({ device }, signal) => {
      await run("losetup", ["--set-capacity", device], { signal });
    },
  };
}

const portable = ({ device, dev, readonly }: LoopDevice): LoopDevice => ({ device, dev, readonly });

const twice = (image: string, device: string, other: string): DriverError =>
  new DriverError(
    "FAILED_PRECONDITION",
    `${other} was bound to ${image} by another process while ${device} was; two devices of one image would write over each other: end that process, let go of ${other} (losetup --detach ${other}), and repeat the call`,
  );
