import { DriverError } from "../domain/driver-error.ts";
import { nameOf } from "../domain/name-of.ts";
import type { VolumeRecord } from "../domain/records.ts";
import type { Host, MountEntry } from "../ports.ts";
import { placesOf, usesOf } from "./volume-uses.ts";

type Looking = Pick<Host, "state" | "loops" | "mounts" | "places" | "copier" | "freezer">;

const writable = ({ options }: MountEntry): boolean => !options.includes("ro");

/**
 * Runs `copy` while none of the volumes changes: mounted images are synced and frozen, all of them together, and thawed whatever
 * happens. What cannot be held still is refused with the cure, unless `live` allows a copy of no single moment.
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
  const writers = uses.mounts.filter(writable);
  if (volume.type === "image") {
    const staged = await stagedAt(host, volume);
    const mounted = writers.find(({ mountPoint }) => mountPoint === staged) ?? writers[0];
    if (mounted !== undefined) return mounted.mountPoint;
    // Whoever may write through a device counts, whether or not it can be seen from here who that is.
    const device = uses.loops.find(({ readonly }) => !readonly)?.device;
    if (device === undefined || live) return undefined;
    // A reflink is of one moment, as after a power cut; what a raw device is used for has to bear that anyway.
    if (await host.copier.reflinks()) return undefined;
    const seen = placesOf(uses.rawTargets);
    throw refusal(volume, seen === "" ? device : seen, "a raw device cannot be frozen, and this disk has no reflinks");
  }
  const staged = await stagedAt(host, volume);
  const publishers = writers.filter(({ mountPoint }) => mountPoint !== staged);
  if (publishers.length === 0 || live) return undefined;
  throw refusal(volume, placesOf(publishers), "a directory cannot be frozen");
}

async function stagedAt(host: Looking, { staging }: VolumeRecord): Promise<string | undefined> {
  return staging === undefined ? undefined : await host.places.resolve(staging.path);
}

const refusal = (volume: VolumeRecord, at: string, why: string): DriverError =>
  new DriverError(
    "FAILED_PRECONDITION",
    `${nameOf(volume)} is in use for writing at ${at}, and ${why}; unpublish it there (or publish it read-only) and repeat the call, or ask with parameter live=allow for a copy of no single moment`,
  );
