import { DriverError } from "../domain/driver-error.ts";
import type { VolumeRecord } from "../domain/records.ts";
import type { Host } from "../ports.ts";

export function knownVolume({ state }: Pick<Host, "state">, id: string): VolumeRecord {
  const volume = state.volumes.get(id);
  if (volume === undefined)
    throw new DriverError("NOT_FOUND", `there is no volume ${id}; it was deleted, or never made`);
  return volume;
}
