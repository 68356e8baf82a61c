import { DriverError } from "../domain/driver-error.ts";
import { isHere } from "../domain/is-here.ts";
import { planKind } from "../domain/volume-plan.ts";
import type { VolumeOperations } from "../operations.ts";
import type { ControllerParts } from "./controller-parts.ts";

type Answer = Awaited<ReturnType<VolumeOperations["capacity"]>>;

const none: Answer = { availableBytes: 0n, maximumVolumeBytes: 0n, minimumVolumeBytes: 0n };

/** "Count only room for volumes with these parameters": where CreateVolume would refuse the kind, there is none. */
export function createCapacity({
  settings,
  room,
}: Pick<ControllerParts, "settings" | "room">): VolumeOperations["capacity"] {
  return async ({ capabilities, parameters, segments }) => {
    if (!isHere(segments, settings)) return none;
    try {
      const kind = planKind({ capabilities, parameters, mutableParameters: {} }, settings, undefined);
      return {
        availableBytes: await room.availableBytes(),
        maximumVolumeBytes: kind.maximumBytes,
        minimumVolumeBytes: kind.minimumBytes,
      };
    } catch (error) {
      if (error instanceof DriverError && error.code === "INVALID_ARGUMENT") return none;
      throw error;
    }
  };
}
