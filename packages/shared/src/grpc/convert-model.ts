/** The model's access modes, attachment modes and epochs ↔ messages of holdfast.v1. */
import { type AccessMode, type AttachmentMode, accessModes } from "@holdfast/model/access";
import type { Epoch } from "@holdfast/model/epoch";
import {
  AccessMode as AccessModeMessage,
  AttachmentMode as AttachmentModeMessage,
  type Epoch as EpochMessage,
} from "../gen/holdfast/v1/common.ts";

export const accessModeMessage = (mode: AccessMode): AccessModeMessage =>
  AccessModeMessage[`ACCESS_MODE_${mode === "UNKNOWN" ? "UNSPECIFIED" : mode}`];

const modes: ReadonlyMap<number, AccessMode> = new Map(accessModes.map((mode) => [accessModeMessage(mode), mode]));

/** UNKNOWN also for a number that this version does not know. */
export const accessModeFrom = (message: number): AccessMode => modes.get(message) ?? "UNKNOWN";

export const attachmentModeMessage = (mode: AttachmentMode): AttachmentModeMessage =>
  AttachmentModeMessage[`ATTACHMENT_MODE_${mode}`];

/** Undefined for none, and for a number that this version does not know. */
export const attachmentModeFrom = (message: number): AttachmentMode | undefined =>
  (["FILE_SYSTEM", "BLOCK_DEVICE"] as const).find((mode) => attachmentModeMessage(mode) === message);

export const epochMessage = ({ gen, ctr }: Epoch): EpochMessage => ({ gen: BigInt(gen), ctr: BigInt(ctr) });
