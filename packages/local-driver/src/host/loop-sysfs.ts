/** What the kernel says about loop devices. It answers from memory, so that reading it in this turn is cheaper than a turn through the thread pool. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { LoopDevice } from "../ports.ts";
import { errnoOf, hostFailure } from "./host-failure.ts";

export interface BoundLoop extends LoopDevice {
  /** As the kernel spells it: ends with " (deleted)" when the file has no name any more. */
  readonly backingFile: string;
  /** It was let go of while somebody had it open: with the last of them it is gone. */
  readonly leaving: boolean;
}

const deletedMark = " (deleted)";
/** The device or its binding went away between two reads. */
const gone = new Set(["ENOENT", "ENXIO", "ENODEV"]);

/** All devices that are bound to this file, given by its canonical path. */
export function loopsOf(sys: string, image: string): readonly BoundLoop[] {
  return boundLoops(sys, (backingFile) => isBacking(backingFile, image));
}

/** All devices that are bound to files of this directory, which is given by its canonical path. */
export function loopsBelow(sys: string, directory: string): readonly BoundLoop[] {
  return boundLoops(sys, (backingFile) => backingFile.startsWith(`${directory}/`));
}

/** One read for each device that is not wanted: there may be hundreds. */
function boundLoops(sys: string, isWanted: (backingFile: string) => boolean): readonly BoundLoop[] {
  return readdirSync(path.join(sys, "block"))
    .filter((name) => /^loop\d+$/.test(name))
    .map((name) => readLoop(sys, `/dev/${name}`, isWanted))
    .filter((loop) => loop !== undefined);
}

/** Undefined when it is not bound to a file, or to one that is not wanted. */
export function readLoop(
  sys: string,
  device: string,
  isWanted: (backingFile: string) => boolean = () => true,
): BoundLoop | undefined {
  const directory = path.join(sys, "block", path.basename(device));
  try {
    const backingFile = readLine(path.join(directory, "loop/backing_file"));
    if (!isWanted(backingFile)) return undefined;
    return {
      device,
      dev: readLine(path.join(directory, "dev")),
      readonly: readLine(path.join(directory, "ro")) === "1",
      backingFile,
      leaving: readLine(path.join(directory, "loop/autoclear")) === "1",
    };
  } catch (error) {
    if (gone.has(errnoOf(error) ?? "")) return undefined;
    throw hostFailure(`tell what ${device} is bound to`, error);
  }
}

/** A device that holds on to a deleted file is not bound to another one that has its name now. */
export function isBacking(backingFile: string, image: string): boolean {
  return backingFile === image || (backingFile === `${image}${deletedMark}` && !existsSync(image));
}

/** Without the mark of a deleted one. */
export function backedFile({ backingFile }: BoundLoop): string {
  return backingFile.endsWith(deletedMark) && !existsSync(backingFile)
    ? backingFile.slice(0, -deletedMark.length)
    : backingFile;
}

/** The name may hold anything but a zero; one line feed is the kernel's own. */
function readLine(file: string): string {
  return readFileSync(file, "utf8").replace(/\n$/, "");
}
