import type { Attachment, OwedCall, VolumeRecord } from "../../domain/volume/volume.ts";
import type { AttachmentExplanation } from "../model.ts";
import { attemptsFinding, blockedFinding } from "./blocked-finding.ts";

/** How the attachments of a volume stand, for people. */

/** Total: a call that is owed for the attachment's own sake says whose wish it is. */
const owedBecause: Record<OwedCall["why"], string> = {
  orphan: "no record owned it, and its removal was approved: it is detached (ControllerUnpublishVolume)",
  late: "an overtaken call may have made it behind its detach: it is detached once more (ControllerUnpublishVolume)",
  missing: "the backend does not show it any more: it is made again (ControllerPublishVolume)",
};

const because = (volume: VolumeRecord, { node, state, owed }: Attachment): string => {
  const users = Object.values(volume.claims).filter((c) => c.node === node && c.state !== "QUEUED");
  const names = users.map((c) => `${c.workload} (${c.state})`).join(", ");
  if (owed !== undefined) return `${owedBecause[owed.why]}${users.length === 0 ? "" : `; held by ${names}`}`;
  if (users.length === 0) return "no claim stands for it: it is owed its detach";
  return state === "DETACHING" ? `being detached after ${names}` : `held by ${names}`;
};

export const explainAttachment = (
  volume: VolumeRecord,
  attachment: Attachment,
  scope: AttachmentExplanation["verificationScope"],
): AttachmentExplanation => ({
  node: attachment.node,
  state: attachment.state,
  because: because(volume, attachment),
  verificationScope: scope,
});

const owing = (volume: VolumeRecord) =>
  Object.values(volume.attachments).flatMap((attachment) =>
    attachment.owed === undefined ? [] : [{ attachment, owed: attachment.owed }],
  );

export const attachmentCallsOwed = (volume: VolumeRecord): boolean => owing(volume).length > 0;

/** Calls that are owed for an attachment's own sake; what is owed for a claim is told with the claim. */
export const attachmentFindings = (volume: VolumeRecord): readonly string[] =>
  owing(volume).flatMap(({ attachment, owed }) => {
    const name = `The attachment to node ${attachment.node}`;
    const { blocked, attempts } = owed;
    return [
      ...blockedFinding(name, blocked),
      `${name} is ${attachment.state}: ${because(volume, attachment)}.`,
      ...attemptsFinding(name, attempts, blocked),
    ];
  });

export const attachmentActions = (volume: VolumeRecord): readonly string[] =>
  owing(volume).flatMap(({ owed }) => (owed.blocked === undefined ? [] : [owed.blocked.clearWith]));
