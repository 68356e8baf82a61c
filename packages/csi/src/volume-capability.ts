/**
 * How a plugin is told what a volume is used for: one wording for the calls of both services, so that a driver that compares the
 * capability of one call with that of another finds them equal.
 */
import type { AccessMode } from "@holdfast/model/access";
import type { Tri } from "@holdfast/model/tri";
import type { VolumeUse } from "@holdfast/model/volume-use";
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from "@holdfast/shared/gen/csi/v1/csi";

/** A mode that this plugin cannot be told, or not yet. */
export interface Unsayable {
  readonly mode: AccessMode;
  readonly because: "refused" | "unknown";
}

/**
 * "SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER ... only with the capability SINGLE_NODE_MULTI_WRITER". To a plugin
 * without it one writer is said as SINGLE_NODE_WRITER, whose promise is the weaker one: Holdfast itself keeps the single
 * workload. Many writers cannot be said: such a plugin may take the second one for a mistake, or tear the first one down.
 */
const modeIn = (mode: AccessMode, fineModes: Tri): Mode | Unsayable => {
  if ((mode !== "SINGLE_NODE_SINGLE_WRITER" && mode !== "SINGLE_NODE_MULTI_WRITER") || fineModes === "yes")
    return Mode[mode];
  if (fineModes === "unknown") return { mode, because: "unknown" };
  return mode === "SINGLE_NODE_SINGLE_WRITER" ? Mode.SINGLE_NODE_WRITER : { mode, because: "refused" };
};

/** `fineModes`: whether the service that is called has SINGLE_NODE_MULTI_WRITER. */
export function capabilityIn(use: VolumeUse, fineModes: "yes"): VolumeCapability;
export function capabilityIn(use: VolumeUse, fineModes: Tri): VolumeCapability | Unsayable;
export function capabilityIn(use: VolumeUse, fineModes: Tri): VolumeCapability | Unsayable {
  const mode = modeIn(use.accessMode, fineModes);
  if (typeof mode === "object") return mode;
  const accessMode = { mode };
  if (use.attachmentMode === "BLOCK_DEVICE") return { accessMode, block: {}, mount: undefined };
  const { fsType, mountFlags, volumeMountGroup } = use;
  return { accessMode, block: undefined, mount: { fsType, mountFlags: [...mountFlags], volumeMountGroup } };
}
