import { DriverError } from "../domain/driver-error.ts";
import { nameOf } from "../domain/name-of.ts";
import type { VolumeRecord } from "../domain/records.ts";
import type { Host, LoopDevice, MountEntry } from "../ports.ts";
import { placesOf, recordedUses, usesOf, type VolumeUses } from "./volume-uses.ts";

type Looking = Pick<Host, "state" | "loops" | "mounts" | "places" | "copier" | "freezer">;

const writable = ({ options }: MountEntry): boolean => !options.includes("ro");
/** A read-only mount may be one of several of a filesystem that is written through another. */
const writableFilesystem = ({ superOptions }: MountEntry): boolean => !superOptions.includes("ro");

/**
 * Runs `copy` while none of the volumes changes: mounted images are synced and frozen, all of them together, and thawed whatever
 * happens. What cannot be held still is refused with the cure, unless `live` allows a copy of no single moment. A filesystem that is
 * mounted where it cannot be frozen is refused with `live` too: what its users wrote last would not be in the copy at all.
 */
export async function duringQuiet<T>(
  host: Looking,
  volumes: readonly VolumeRecord[],
  { live }: { readonly live: boolean },
  copy: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const freezable: string[] = [];
  for (const volume of volumes) {
    const mountPoint = await toFreeze(host, volume, live);
    if (mountPoint !== undefined) freezable.push(mountPoint);
  }
  return freezable.length === 0 ? await copy() : await host.freezer.during(freezable, copy, signal);
}

/** Where its filesystem is to be frozen; undefined: nobody writes to it, or all that could be done is done. */
async function toFreeze(host: Looking, volume: VolumeRecord, live: boolean): Promise<string | undefined> {
  const uses = await usesOf(host, volume);
  if (volume.type === "image") return await imageToFreeze(host, volume, uses, live);
  const staged = await stagedAt(host, volume);
  const publishers = uses.mounts.filter((entry) => writable(entry) && entry.mountPoint !== staged);
  if (publishers.length === 0 || live) return undefined;
  throw refusal(volume, placesOf(publishers), "a directory cannot be frozen");
}

async function imageToFreeze(
  host: Looking,
  volume: VolumeRecord,
  { strangers, mounts, loops, rawTargets }: VolumeUses,
  live: boolean,
): Promise<string | undefined> {
  const { image } = host.state.volumes.paths(volume.id);
  if (strangers.length > 0) throw notOfImage(volume, image, strangers);
  const writers = mounts.filter(writableFilesystem);
  if (writers.length > 0) return await placeToFreeze(host, volume, writers);
  // Whoever may write through a device counts, whether or not it can be seen from here who that is.
  const loop = loops.find(({ readonly }) => !readonly);
  if (loop === undefined) return undefined;
  if (mounts.length === 0 && rawTargets.length === 0 && hasFilesystem(volume)) throw unseen(volume, image, loop);
  // A reflink is of one moment, as after a power cut; what a raw device is used for has to bear that anyway.
  if (live || (await host.copier.reflinks())) return undefined;
  const seen = placesOf(rawTargets);
  throw refusal(
    volume,
    seen === "" ? loop.device : seen,
    "a raw device cannot be frozen, and this disk has no reflinks",
  );
}

/** A mount that another one hides is not frozen by its path: what is on top of it would be. */
async function placeToFreeze(host: Looking, volume: VolumeRecord, writers: readonly MountEntry[]): Promise<string> {
  const staged = await stagedAt(host, volume);
  const stagedFirst = writers.toSorted((a, b) => Number(b.mountPoint === staged) - Number(a.mountPoint === staged));
  for (const { mountPoint, dev } of stagedFirst)
    if ((await host.mounts.identityOf(mountPoint)).dev === dev) return mountPoint;
  throw new DriverError(
    "FAILED_PRECONDITION",
    `${nameOf(volume)} is mounted at ${placesOf(writers)}, and another mount hides it there, so its filesystem cannot be frozen; unmount what is on top, and repeat the call`,
  );
}

const hasFilesystem = (volume: VolumeRecord): boolean =>
  volume.format !== undefined || recordedUses(volume).some(({ capability }) => capability.access === "mount");

async function stagedAt(host: Looking, { staging }: VolumeRecord): Promise<string | undefined> {
  return staging === undefined ? undefined : await host.places.resolve(staging.path);
}

const refusal = (volume: VolumeRecord, at: string, why: string): DriverError =>
  new DriverError(
    "FAILED_PRECONDITION",
    `${nameOf(volume)} is in use for writing at ${at}, and ${why}; unpublish it there (or publish it read-only) and repeat the call, or ask with parameter live=allow for a copy of no single moment`,
  );

const withoutIt = "what was written there would be missing in the copy";

const notOfImage = (volume: VolumeRecord, image: string, strangers: readonly MountEntry[]): DriverError =>
  new DriverError(
    "FAILED_PRECONDITION",
    `${nameOf(volume)} is in use at ${strangers.map(({ mountPoint, source, dev }) => `${mountPoint} (${source}, device ${dev})`).join(", ")}, and no loop device of its image ${image} is mounted there: ${withoutIt}; unpublish and unstage the volume (umount what stays there), and repeat the call`,
  );

const unseen = (volume: VolumeRecord, image: string, { device, dev }: LoopDevice): DriverError =>
  new DriverError(
    "FAILED_PRECONDITION",
    `${nameOf(volume)}: its image ${image} is bound to ${device}, and the driver does not see where the filesystem of that device is mounted: ${withoutIt}; end the processes that have it in their mount namespace (grep -l ' ${dev} ' /proc/[0-9]*/mountinfo names them), unpublish and unstage the volume, and repeat the call`,
  );
