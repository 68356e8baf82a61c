/** What NodeGetVolumeStats answers, in words of the domain. */
import { cleanPluginText } from "@holdfast/csi/plugin-text";
import { type NodeGetVolumeStatsResponse, VolumeUsage_Unit as Unit } from "@holdfast/shared/gen/csi/v1/csi";
import type { VolumeFigures, VolumeUsage } from "../domain/volume-figures.ts";

/** Units of a later CSI are left out: nobody could say what they count. */
const units: Readonly<Record<number, VolumeUsage["unit"]>> = { [Unit.BYTES]: "bytes", [Unit.INODES]: "inodes" };

export function figuresOf({ usage, volumeCondition }: NodeGetVolumeStatsResponse): VolumeFigures {
  const known = usage.flatMap(({ unit, total, used, available }) => {
    const named = units[unit];
    return named === undefined ? [] : [{ unit: named, total, used, available }];
  });
  if (volumeCondition === undefined) return { usage: known };
  const { abnormal, message } = volumeCondition;
  return { usage: known, condition: { abnormal, message: cleanPluginText(message, []) } };
}
