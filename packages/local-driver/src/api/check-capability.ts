import {
  VolumeCapability_AccessMode_Mode as Mode,
  type VolumeCapability,
  type VolumeCapability_MountVolume,
} from "@holdfast/shared/gen/csi/v1/csi";
import { offeredMountOptions } from "../domain/mount-options.ts";
import type { AccessMode, Capability } from "../domain/records.ts";
import { anything, both, type Check, flags, form, inner, optional, word } from "./check-field.ts";

/** Of every mode of CSI: the one of ours, or why a volume that lives on one node cannot have it. */
const modes: Readonly<Record<Mode, AccessMode | { readonly not: string }>> = {
  [Mode.UNKNOWN]: { not: "is required, and may not be UNKNOWN" },
  [Mode.UNRECOGNIZED]: { not: "is no access mode of CSI 1.12" },
  [Mode.SINGLE_NODE_WRITER]: "SINGLE_NODE_WRITER",
  [Mode.SINGLE_NODE_READER_ONLY]: "SINGLE_NODE_READER_ONLY",
  [Mode.SINGLE_NODE_SINGLE_WRITER]: "SINGLE_NODE_SINGLE_WRITER",
  [Mode.SINGLE_NODE_MULTI_WRITER]: "SINGLE_NODE_MULTI_WRITER",
  [Mode.MULTI_NODE_READER_ONLY]: { not: "MULTI_NODE_READER_ONLY is not offered: a volume is on one node" },
  [Mode.MULTI_NODE_SINGLE_WRITER]: { not: "MULTI_NODE_SINGLE_WRITER is not offered: a volume is on one node" },
  [Mode.MULTI_NODE_MULTI_WRITER]: { not: "MULTI_NODE_MULTI_WRITER is not offered: a volume is on one node" },
};

const malformedModes: ReadonlySet<Mode> = new Set([Mode.UNKNOWN, Mode.UNRECOGNIZED]);

const modeOf = (capability: VolumeCapability): Mode => {
  const mode = capability.accessMode?.mode ?? Mode.UNKNOWN;
  return mode in modes ? mode : Mode.UNRECOGNIZED;
};

const maxGid = 4_294_967_294n;
const isGid = (text: string): boolean => /^(?:0|[1-9]\d{0,9})$/.test(text) && BigInt(text) <= maxGid;

const mount = form<VolumeCapability_MountVolume>({ fsType: word, mountFlags: flags, volumeMountGroup: word });
const parts = form<VolumeCapability>({ block: anything, mount: optional(mount), accessMode: anything });

/** What any driver would have to refuse. */
export const wellFormedCapability: Check<VolumeCapability> = both(parts, (capability, field, tell) => {
  if ((capability.block === undefined) === (capability.mount === undefined))
    tell(field, "needs exactly one of block and mount");
  const mode = modeOf(capability);
  const known = modes[mode];
  if (malformedModes.has(mode) && typeof known !== "string") tell(inner(field, "access_mode.mode"), known.not);
});

/** What this driver has. */
export const offeredCapability: Check<VolumeCapability> = (capability, field, tell) => {
  const mode = modeOf(capability);
  const known = modes[mode];
  if (typeof known !== "string" && !malformedModes.has(mode)) tell(inner(field, "access_mode.mode"), known.not);
  const { mount } = capability;
  if (mount === undefined) return;
  // A flag is not repeated: "this field MAY contain sensitive information".
  mount.mountFlags.forEach((flag, at) => {
    if (flag !== "" && !offeredMountOptions.includes(flag))
      tell(
        `${inner(field, "mount.mount_flags")}[${at}]`,
        `is not offered; there are ${offeredMountOptions.join(", ")}`,
      );
  });
  if (!["", "ext4", "xfs"].includes(mount.fsType)) tell(inner(field, "mount.fs_type"), "is neither ext4 nor xfs");
  if (mount.volumeMountGroup !== "" && !isGid(mount.volumeMountGroup))
    tell(inner(field, "mount.volume_mount_group"), "is no numeric group id");
};

/** Only of what both checks let through. */
export const toCapability = (capability: VolumeCapability): Capability => {
  const mode = modes[modeOf(capability)];
  if (typeof mode !== "string") throw new Error(`the access mode of a checked capability ${mode.not}`);
  const { mount } = capability;
  if (mount === undefined) return { access: "block", mode, fsType: "", mountFlags: [], mountGroup: "" };
  const fsType = mount.fsType === "ext4" || mount.fsType === "xfs" ? mount.fsType : "";
  return { access: "mount", mode, fsType, mountFlags: mount.mountFlags, mountGroup: mount.volumeMountGroup };
};
