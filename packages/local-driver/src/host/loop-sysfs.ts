/** What sysfs tells of loop devices. It answers from memory, so that reading it in this turn is cheaper than a turn through the thread pool. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { LoopDevice } from "../ports.ts";
import { errnoOf, hostFailure } from "./host-failure.ts";

export interface BoundLoop extends LoopDevice {
  /**
   * A path as the kernel spells it here and now, for messages: it ends with " (deleted)" when the file has no name any more, and it is
   * another text once the mount is gone through which the file was opened. Which file this is, only its device and inode tell.
   */
  readonly backingFile: string;
  /** It was let go of while somebody had it open: with the last of them it is gone. */
  readonly leaving: boolean;
}

/** The device or its binding went away between two reads. */
const gone = new Set(["ENOENT", "ENXIO", "ENODEV"]);

/** All devices that are bound to a file, as /dev/loopN. */
export function boundDevices(sys: string): readonly string[] {
  return readdirSync(path.join(sys, "block"))
    .filter((name) => /^loop\d+$/.test(name))
    .map((name) => `/dev/${name}`)
    .filter((device) => readLoop(sys, device) !== undefined);
}

/** Undefined when it is not bound to a file. */
export function readLoop(sys: string, device: string): BoundLoop | undefined {
  const directory = path.join(sys, "block", path.basename(device));
  try {
    return {
      backingFile: readLine(path.join(directory, "loop/backing_file")),
      device,
      dev: readLine(path.join(directory, "dev")),
      readonly: readLine(path.join(directory, "ro")) === "1",
      leaving: readLine(path.join(directory, "loop/autoclear")) === "1",
    };
  } catch (error) {
    if (gone.has(errnoOf(error) ?? "")) return undefined;
    throw hostFailure(`tell what ${device} is bound to`, error);
  }
}

/** The name may hold anything but a zero; one line feed is the kernel's own. */
function readLine(file: string): string {
  return readFileSync(file, "utf8").replace(/\n$/, "");
}
