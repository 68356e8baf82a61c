import type {
  ExplainVolumeResponse,
  AttachmentExplanation as WireAttachment,
  ClaimExplanation as WireClaim,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import type { AttachmentExplanation, ClaimExplanation, VolumeExplanation } from "../../commands/model.ts";
import { degradedOf } from "../../domain/claim/claim.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { claimStateMessage } from "../claim/convert-claim.ts";
import { blockedMessage, callMessage, dateOf, lastErrorMessage, scopeMessage } from "../convert-message.ts";
import { attachmentMessage, barMessages, intentMessage, volumeMessage, volumeStateMessage } from "./convert-volume.ts";

const claimMessage = (explained: ClaimExplanation, plugin: string): WireClaim => ({
  claimUid: explained.claim.uid,
  workload: explained.claim.workload,
  alias: explained.claim.alias,
  node: explained.claim.node,
  state: claimStateMessage(explained.claim.state),
  step: explained.step,
  waitingFor: explained.waitingFor,
  holder: explained.holder,
  attempts: explained.attempts,
  nextTry: dateOf(explained.nextTry),
  lastError: lastErrorMessage(explained.lastError, { plugin, node: explained.claim.node }),
  blocked: blockedMessage(explained.blocked),
  degradedSince: dateOf(degradedOf(explained.claim)?.since),
  degradedReason: degradedOf(explained.claim)?.reason ?? "",
  call: callMessage(explained.call, { plugin, node: explained.claim.node, last: explained.lastError }),
  traceId: explained.traceId,
});

const attachment = (
  volume: VolumeRecord,
  { node, because, verificationScope }: AttachmentExplanation,
): WireAttachment => {
  const found = volume.attachments[node];
  return {
    attachment: found === undefined ? undefined : attachmentMessage(volume, found),
    because,
    verificationScope: scopeMessage(verificationScope),
  };
};

export const explanationMessage = (explained: VolumeExplanation): ExplainVolumeResponse => {
  const { volume } = explained;
  return {
    volume: volumeMessage(explained),
    state: volumeStateMessage(volume.state),
    intent: intentMessage(volume.intent),
    claims: explained.claims.map((one) => claimMessage(one, volume.plugin)),
    attachments: explained.attachments.map((one) => attachment(volume, one)),
    bars: barMessages(volume),
    blocked: blockedMessage(volume.blocked),
    findings: [...explained.findings],
    nextActions: [...explained.nextActions],
  };
};
