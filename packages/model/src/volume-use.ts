import type { AccessMode, AttachmentMode } from "./access.ts";

/** How a volume is used, as records and orders have it. */
export interface VolumeUse {
  readonly accessMode: AccessMode;
  readonly attachmentMode: AttachmentMode;
  readonly fsType: string;
  readonly mountFlags: readonly string[];
  readonly volumeMountGroup: string;
}

/** That alone of what has more: a claim, an attachment. Every call of a volume's life is told the same. */
export const useOf = (one: VolumeUse): VolumeUse => ({
  attachmentMode: one.attachmentMode,
  accessMode: one.accessMode,
  fsType: one.fsType,
  mountFlags: one.mountFlags,
  volumeMountGroup: one.volumeMountGroup,
});
