import { capabilityProblems, usableOf } from "../domain/capability-problems.ts";
import { DriverError } from "../domain/driver-error.ts";
import { maximumBytes, roundUp } from "../domain/image-size.ts";
import type { Capability, VolumeRecord } from "../domain/records.ts";
import type { VolumeOperations } from "../operations.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { knownVolume } from "./known-volume.ts";
import { mustBeSound } from "./sound-image.ts";

/** The file first and the record after it: a record never promises what the image has not. Volumes do not shrink. */
export function createExpandVolume({
  host,
  room,
}: Pick<ControllerParts, "host" | "room">): VolumeOperations["expandVolume"] {
  return async (id, { capacity, capability }, signal) => {
    const volume = knownVolume(host, id);
    const problems = capability === undefined ? [] : capabilityProblems(capability, usableOf(volume));
    if (problems.length > 0) throw new DriverError("INVALID_ARGUMENT", problems.join("; "));

    const wanted = wantedBytes(volume, capacity);
    const now = volume.capacityBytes;
    if (wanted > now) {
      await mustBeSound(host, volume);
      const giveBack = await room.promise(wanted - now);
      try {
        if (volume.type === "image") await host.images.grow(host.state.volumes.paths(id).image, wanted, signal);
        await host.state.volumes.change(id, (record) => ({ ...record, capacityBytes: wanted }));
      } finally {
        giveBack();
      }
    }
    return { capacityBytes: wanted, nodeExpansionRequired: nodeMustExpand(volume, capability) };
  };
}

function wantedBytes(
  { type, capacityBytes }: VolumeRecord,
  { requiredBytes, limitBytes }: { readonly requiredBytes: bigint; readonly limitBytes: bigint },
): bigint {
  if (limitBytes > 0n && limitBytes < capacityBytes)
    throw new DriverError(
      "OUT_OF_RANGE",
      `it has ${capacityBytes} bytes already, above limit_bytes ${limitBytes}, and volumes do not shrink`,
    );
  if (requiredBytes <= capacityBytes) return capacityBytes;
  const wanted = type === "image" ? roundUp(requiredBytes) : requiredBytes;
  if (limitBytes > 0n && wanted > limitBytes)
    throw new DriverError(
      "OUT_OF_RANGE",
      `images have whole blocks of 4096 bytes: the least above required_bytes ${requiredBytes} is ${wanted}, beyond limit_bytes ${limitBytes}; widen the range`,
    );
  if (type === "image" && wanted > maximumBytes)
    throw new DriverError(
      "OUT_OF_RANGE",
      `required_bytes ${requiredBytes} is above ${maximumBytes}, the most for an image`,
    );
  return wanted;
}

/** A filesystem has to follow, and the loop device of a raw volume that is in use; an image that lies still is larger at once. */
function nodeMustExpand(volume: VolumeRecord, capability: Capability | undefined): boolean {
  if (volume.type === "directory") return false;
  const inUse = volume.staging !== undefined || volume.publications.length > 0;
  const access = capability?.access ?? volume.staging?.capability.access ?? (volume.format ? "mount" : "block");
  return access === "mount" || inUse;
}
