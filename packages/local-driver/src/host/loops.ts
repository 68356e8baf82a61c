/**
 * Loop devices by losetup; what is true is read in sysfs.
 *
 * L1 One attach at a time, and at most one device for each image and way (read-write, read-only): two would have two caches.
 * L2 A device is let go of only while it is bound to this image: its number may be another volume's in the next moment, so it is held
 *    open from the look to the order.
 * L3 An attach that fails leaves no device behind.
 */
import { open } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { DriverError } from "../domain/driver-error.ts";
import type { LoopDevice, Loops } from "../ports.ts";
import { canonicalPath } from "./canonical-path.ts";
import { deviceHolders } from "./device-holders.ts";
import { errnoOf, givenUp, hostFailure, throwIfGivenUp } from "./host-failure.ts";
import { type BoundLoop, isBacking, loopsOf, readLoop } from "./loop-sysfs.ts";
import type { RunTool } from "./run-tool.ts";

export interface LoopsOptions {
  readonly run: RunTool;
  readonly sys?: string;
  readonly proc?: string;
  /** For whoever opens every new device for a moment, as udev does. */
  readonly patienceMs?: number;
}

const firstWaitMs = 1;
const longestWaitMs = 50;
const never = () => new AbortController().signal;

export function createLoops({ run, sys = "/sys", proc = "/proc", patienceMs = 3000 }: LoopsOptions): Loops {
  let attaching: Promise<unknown> = Promise.resolve();

  const attachOne = async (image: string, readonly: boolean, signal: AbortSignal): Promise<LoopDevice> => {
    throwIfGivenUp(`attach ${image}`, signal);
    const before = loopsOf(sys, image);
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
    const bound = readLoop(sys, device);
    if (bound?.readonly === readonly && isBacking(bound.backingFile, image)) return bound;
    await run("blockdev", [readonly ? "--setro" : "--setrw", device], { signal });
    const again = readLoop(sys, device);
    if (again?.readonly === readonly && isBacking(again.backingFile, image)) return again;
    throw new DriverError(
      "INTERNAL",
      `losetup answered ${device} for ${image}, and it is ${again === undefined ? "not bound" : `bound to ${again.backingFile}, ${again.readonly ? "read-only" : "read-write"}`}; repeat the call`,
    );
  };

  const letGoOfNew = async (image: string, before: readonly BoundLoop[]): Promise<void> => {
    const known = new Set(before.map((loop) => loop.device));
    for (const loop of loopsOf(sys, image).filter(({ device }) => !known.has(device)))
      await detach(loop, image, never()).catch(() => undefined);
  };

  const detach = async (device: LoopDevice, file: string, signal: AbortSignal): Promise<void> => {
    const image = await canonicalPath(file);
    const isOurs = () => {
      const bound = readLoop(sys, device.device);
      return bound !== undefined && isBacking(bound.backingFile, image);
    };
    if (!isOurs()) return;
    const held = await open(device.device, "r").catch((error: unknown) => {
      if (errnoOf(error) === "ENXIO" || errnoOf(error) === "ENOENT") return undefined;
      throw hostFailure(`open ${device.device}`, error);
    });
    try {
      if (!isOurs()) return; // L2
      await run("losetup", ["--detach", device.device], { signal });
    } finally {
      await held?.close();
    }
    await untilGone(isOurs, device, image, signal);
  };

  const untilGone = async (isOurs: () => boolean, device: LoopDevice, image: string, signal: AbortSignal) => {
    const end = performance.now() + patienceMs;
    for (let wait = firstWaitMs; isOurs(); wait = Math.min(wait * 2, longestWaitMs)) {
      if (performance.now() > end) throw await stillHeld(device, image);
      await sleep(wait, undefined, { signal }).catch(() => {
        throw givenUp(`let go of ${device.device} (${image})`, signal);
      });
    }
  };

  const stillHeld = async (device: LoopDevice, image: string): Promise<DriverError> => {
    const holders = await deviceHolders(proc, device);
    const who = holders.length === 0 ? "a process that cannot be seen from here has it open" : holders.join("; ");
    return new DriverError(
      "FAILED_PRECONDITION",
      `${device.device}, the device of ${image}, is still in use: ${who}; end that and repeat the call (the kernel lets go of it with the last user)`,
    );
  };

  return {
    of: async (image) => loopsOf(sys, await canonicalPath(image)).map(portable),
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
