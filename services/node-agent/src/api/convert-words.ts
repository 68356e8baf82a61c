/** What several messages of holdfast.internal.v1 have in common. */
import type { VolumeHealthEntry } from "@holdfast/model/health";
import { RefusalReason } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { Blocked, DeepPartial, VolumeHealth } from "@holdfast/shared/gen/holdfast/v1/common";
import { epochMessage } from "@holdfast/shared/grpc/convert-model";
import type { Halt } from "../domain/answer-types.ts";
import type { Refusal } from "../domain/judge-order.ts";

export function safeNumber(value: bigint): number {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : -1;
}

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

export const healthMessage = (told: readonly VolumeHealthEntry[] | undefined): DeepPartial<VolumeHealth> | undefined =>
  told && { entries: told.map((entry) => ({ ...entry })) };

export function blockedMessage(halt: Halt, since: Date): Blocked | undefined {
  if (halt.blocked === undefined) return undefined;
  return { since, reason: halt.reason, message: halt.message, ...halt.blocked };
}
