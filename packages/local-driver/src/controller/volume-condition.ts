import { DriverError } from "../domain/driver-error.ts";
import type { VolumeRecord } from "../domain/records.ts";
import type { Condition } from "../operations.ts";
import type { Host } from "../ports.ts";
import { faultOf } from "./sound-image.ts";

/** As an operator should read it. A check that fails is a finding too, and hides no other volume of a list. */
export async function conditionOf(
  host: Pick<Host, "state" | "images" | "places">,
  volume: VolumeRecord,
): Promise<Condition> {
  try {
    const fault = await faultOf(host, volume);
    if (fault !== undefined) return { abnormal: true, message: fault };
  } catch (error) {
    if (!(error instanceof DriverError)) throw error;
    return { abnormal: true, message: `its contents cannot be looked at: ${error.message}` };
  }
  if (volume.format?.finished === false)
    return { abnormal: false, message: `mkfs.${volume.format.fsType} was begun; the next NodeStageVolume ends it` };
  return { abnormal: false, message: "its contents are there and as large as they should be" };
}
