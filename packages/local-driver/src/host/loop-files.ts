/**
 * Which file each loop device is bound to, by device and inode. Only the ioctl LOOP_GET_STATUS64 tells them, and losetup asks it; the
 * path in sysfs is another text as soon as the mount namespace ended in which the file was opened.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { DriverError } from "../domain/driver-error.ts";
import { type FileIdentity, identityFrom } from "./file-identity.ts";
import { givenUp } from "./host-failure.ts";
import { type BoundLoop, boundDevices, readLoop } from "./loop-sysfs.ts";
import type { RunTool } from "./run-tool.ts";

export interface LoopFile extends BoundLoop {
  readonly identity: FileIdentity;
}

interface Looking {
  readonly run: RunTool;
  readonly sys: string;
}

/** Devices come and go while they are looked at, and one that goes tells nothing for a moment. */
const looks = 5;
const betweenLooksMs = 20;

/** All bound devices; FAILED_PRECONDITION when one of them cannot be identified: it might be bound to any image. */
export async function loopFiles({ run, sys }: Looking, signal: AbortSignal): Promise<readonly LoopFile[]> {
  for (let look = 1; ; look += 1) {
    const before = boundDevices(sys);
    if (before.length === 0) return [];
    const identities = await identitiesOfAll(run, signal);
    const untold = before.find((device) => !identities.has(device) && readLoop(sys, device) !== undefined);
    if (untold === undefined)
      return [...identities].flatMap(([device, identity]) => {
        const bound = readLoop(sys, device);
        return bound === undefined ? [] : [{ ...bound, identity }];
      });
    if (look === looks) throw unidentified(untold);
    await sleep(betweenLooksMs, undefined, { signal }).catch(() => {
      throw givenUp(`tell which file ${untold} is bound to`, signal);
    });
  }
}

async function identitiesOfAll(run: RunTool, signal: AbortSignal): Promise<ReadonlyMap<string, FileIdentity>> {
  const columns = "NAME,BACK-INO,BACK-MAJ:MIN";
  const { stdout } = await run("losetup", ["--list", "--noheadings", "--raw", "--output", columns], { signal });
  return new Map(stdout.split("\n").flatMap(parseLine));
}

/** `/dev/loop0 9977916 \x20254:0\x20`: a space inside of a column is escaped, and a column that cannot be told is empty. */
function parseLine(line: string): [string, FileIdentity][] {
  const [, device, inode, numbers] = /^(\/dev\/loop\d+) (\d+) (?:\\x20)*(\d+:\d+)(?:\\x20)*$/.exec(line) ?? [];
  if (device === undefined || inode === undefined || numbers === undefined) return [];
  return [[device, identityFrom(numbers, inode)]];
}

const unidentified = (device: string): DriverError =>
  new DriverError(
    "FAILED_PRECONDITION",
    `${device} is bound to a file, and losetup cannot tell to which: it may be the image of a volume, so no loop device is used; give the driver the /dev of its host and the rights to open ${device}, or let go of it (losetup --detach ${device}), and repeat the call`,
  );
