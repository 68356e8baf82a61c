import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from "@holdfast/shared/gen/csi/v1/csi";

export type ModeName = Exclude<keyof typeof Mode, "UNRECOGNIZED">;

const names = new Map<number, ModeName>(
  Object.entries(Mode)
    .filter(([name]) => name !== "UNRECOGNIZED")
    .map(([name, value]) => [value, name as ModeName]),
);

export const modeOf = (capability: VolumeCapability | undefined): ModeName =>
  names.get(capability?.accessMode?.mode ?? Mode.UNKNOWN) ?? "UNKNOWN";

export const isMultiNode = (capability: VolumeCapability | undefined): boolean =>
  modeOf(capability).startsWith("MULTI_NODE_");

/** The column "T1 != T2" of NodePublishVolume's table: may the volume show at a second target on the node? */
export const allowsSecondTarget = (capability: VolumeCapability | undefined): boolean =>
  isMultiNode(capability) || modeOf(capability) === "SINGLE_NODE_MULTI_WRITER";

/** The two modes that need a capability of their own. */
export const isNewMode = (capability: VolumeCapability | undefined): boolean =>
  modeOf(capability) === "SINGLE_NODE_SINGLE_WRITER" || modeOf(capability) === "SINGLE_NODE_MULTI_WRITER";
