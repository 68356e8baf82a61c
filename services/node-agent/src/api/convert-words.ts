/** What several messages of holdfast.internal.v1 have in common. */
import type { AccessMode, AttachmentMode } from "@holdfast/model/access";
import type { Epoch } from "@holdfast/model/epoch";
import { RefusalReason } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  AccessMode as AccessModeMessage,
  AttachmentMode as AttachmentModeMessage,
  type Blocked,
  type Epoch as EpochMessage,
} from "@holdfast/shared/gen/holdfast/v1/common";
import type { Halt } from "../domain/answer-types.ts";
import type { Refusal } from "../domain/judge-order.ts";

export function safeNumber(value: bigint): number {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : -1;
}

export const accessModes: Readonly<Record<number, AccessMode>> = {
  [AccessModeMessage.ACCESS_MODE_SINGLE_NODE_WRITER]: "SINGLE_NODE_WRITER",
  [AccessModeMessage.ACCESS_MODE_SINGLE_NODE_READER_ONLY]: "SINGLE_NODE_READER_ONLY",
  [AccessModeMessage.ACCESS_MODE_MULTI_NODE_READER_ONLY]: "MULTI_NODE_READER_ONLY",
  [AccessModeMessage.ACCESS_MODE_MULTI_NODE_SINGLE_WRITER]: "MULTI_NODE_SINGLE_WRITER",
  [AccessModeMessage.ACCESS_MODE_MULTI_NODE_MULTI_WRITER]: "MULTI_NODE_MULTI_WRITER",
  [AccessModeMessage.ACCESS_MODE_SINGLE_NODE_SINGLE_WRITER]: "SINGLE_NODE_SINGLE_WRITER",
  [AccessModeMessage.ACCESS_MODE_SINGLE_NODE_MULTI_WRITER]: "SINGLE_NODE_MULTI_WRITER",
};

export const attachmentModes: Readonly<Record<number, AttachmentMode>> = {
  [AttachmentModeMessage.ATTACHMENT_MODE_FILE_SYSTEM]: "FILE_SYSTEM",
  [AttachmentModeMessage.ATTACHMENT_MODE_BLOCK_DEVICE]: "BLOCK_DEVICE",
};

export const epochMessage = ({ gen, ctr }: Epoch): EpochMessage => ({ gen: BigInt(gen), ctr: BigInt(ctr) });

export const callWords = ({ method, code }: { readonly method: string; readonly code: string }) => ({
  csiMethod: method,
  csiCode: code,
});

const refusals: Record<Refusal["reason"], RefusalReason> = {
  FLOOR: RefusalReason.REFUSAL_REASON_FLOOR,
  DEAD: RefusalReason.REFUSAL_REASON_DEAD,
  NODE_EPOCH: RefusalReason.REFUSAL_REASON_NODE_EPOCH,
  GENERATION: RefusalReason.REFUSAL_REASON_GENERATION,
  QUARANTINED: RefusalReason.REFUSAL_REASON_QUARANTINED,
  ACCESS_CONFLICT: RefusalReason.REFUSAL_REASON_ACCESS_CONFLICT,
  EPOCH_LEAP: RefusalReason.REFUSAL_REASON_EPOCH_LEAP,
};

export function refusedMessage(refusal: Refusal) {
  return {
    reason: refusals[refusal.reason],
    message: refusal.message,
    floor: refusal.floor === undefined ? undefined : epochMessage(refusal.floor),
    holderClaimUid: refusal.holderClaimUid ?? "",
    nodeEpoch: BigInt(refusal.nodeEpoch ?? 0),
  };
}

export function blockedMessage(halt: Halt, since: Date): Blocked | undefined {
  if (halt.blocked === undefined) return undefined;
  return { since, reason: halt.reason, message: halt.message, ...halt.blocked };
}
