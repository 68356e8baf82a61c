import { blockedBy } from "../blocked-by.ts";
import { type Change, noChange, volumeNote, withoutKey } from "../change.ts";
import { holds } from "../claim/claim-machine.ts";
import type { Moment } from "../moment.ts";
import { followOf } from "../obligation/obligation.ts";
import { callReturned } from "../obligation/wish.ts";
import { mayBeOpen } from "../open-call.ts";
import { type Blocked, type Failure, noAttempts, type Outcome } from "../outcome.ts";
import { failedAttempt } from "../retry.ts";
import type { Attachment, OwedCall, VolumeRecord } from "../volume/volume.ts";
import { attachTrouble } from "./attach-pause.ts";

/** What attachments are owed for their own sake: orphans that are removed, and those that the backend has lost. */

const told = (volume: VolumeRecord): Change => ({ volume, ended: [], notes: [volumeNote(volume)] });

const withAttachment = (volume: VolumeRecord, attachment: Attachment, now: number): VolumeRecord => ({
  ...volume,
  attachments: { ...volume.attachments, [attachment.node]: attachment },
  updatedAt: now,
});

const settledCall = (attachment: Attachment): Attachment => {
  const { owed: _done, ...rest } = attachment;
  return rest;
};

const owing = (why: OwedCall["why"], now: number): OwedCall => ({ why, since: now, attempts: noAttempts });

/** No certain answer, or one that only a person can change: the same call again, slowly. */
export const owedAgain = (
  volume: VolumeRecord,
  attachment: Attachment,
  failure: Failure,
  blocked: Blocked | undefined,
  at: Moment,
): Change => {
  if (attachment.owed === undefined) return noChange(volume);
  const { blocked: _old, ...rest } = attachment.owed;
  const owed: OwedCall = {
    ...rest,
    attempts: failedAttempt(rest.attempts, failure, at),
    ...(blocked === undefined ? {} : { blocked }),
  };
  return told(withAttachment(volume, { ...attachment, owed }, at.now));
};

/** An attachment that no record owned, and whose removal was approved, is owned now: by its detach alone. */
export const orphanDetachWanted = (volume: VolumeRecord, attachment: Attachment, at: Moment): Change => {
  if (volume.attachments[attachment.node] !== undefined) return noChange(volume);
  const orphan: Attachment = { ...attachment, state: "DETACHING", owed: owing("orphan", at.now) };
  return told(withAttachment(volume, orphan, at.now));
};

/**
 * The node holds the volume by a grant that the store has lost, and with it the attachment: it is detached once the node has let go, and
 * the volume is attached nowhere beside it.
 */
export const withForgotten = (volume: VolumeRecord, attachment: Attachment, now: number): VolumeRecord =>
  volume.attachments[attachment.node] === undefined && volume.foreign?.some(({ node }) => node === attachment.node)
    ? withAttachment(volume, { ...attachment, owed: owing("late", now) }, now)
    : volume;

/**
 * A node that nobody knew has registered since, and the record owns its attachment now: the approval was for another one, and its
 * detach would take the volume from under its user (I2).
 */
export const isOwnedSince = (volume: VolumeRecord, node: string): boolean => {
  const orphan = volume.attachments[node];
  return (
    (orphan?.owed?.why === "orphan" || orphan?.owed?.why === "late") &&
    Object.values(volume.attachments).some((other) => other.node !== node && other.nodeId === orphan.nodeId)
  );
};

export const orphanOwned = (volume: VolumeRecord, node: string, at: Moment): Change => {
  if (!isOwnedSince(volume, node)) return noChange(volume);
  // Its detach may be on its way: nothing else of the pair starts before that call has ended.
  if (volume.intent?.node === node && mayBeOpen(volume)) return noChange(volume);
  const { intent, ...rest } = volume;
  return told({
    ...rest,
    ...(intent === undefined || intent.node === node ? {} : { intent }),
    attachments: withoutKey(volume.attachments, node),
    updatedAt: at.now,
  });
};

/** Somebody holds the volume there and wants to go on. */
const isWantedOn = (volume: VolumeRecord, node: string): boolean =>
  Object.values(volume.claims).some((c) => c.node === node && c.goal === "active" && holds[c.state]);

/** The backend does not show an attachment that claims hold: it is made again. Nothing is taken from its users. */
export const reattachWanted = (volume: VolumeRecord, node: string, at: Moment): Change => {
  const attachment = volume.attachments[node];
  if (attachment?.state !== "ATTACHED" || !attachment.needsCalls || attachment.owed !== undefined)
    return noChange(volume);
  if (!isWantedOn(volume, node)) return noChange(volume);
  return told(withAttachment(volume, { ...attachment, owed: owing("missing", at.now) }, at.now));
};

/** The backend shows it after all. */
export const reattachNotWanted = (volume: VolumeRecord, node: string, at: Moment): Change => {
  const attachment = volume.attachments[node];
  if (attachment?.owed?.why !== "missing" || attachment.state !== "ATTACHED") return noChange(volume);
  // A call that may still run keeps its intent and its repeat.
  if (volume.intent?.node === node) return noChange(volume);
  return told(withAttachment(volume, settledCall(attachment), at.now));
};

/** The intent before the call (I4). */
export const reattachStarted = (volume: VolumeRecord, node: string, at: Moment): Change => {
  const attachment = volume.attachments[node];
  if (volume.intent !== undefined || attachment?.state !== "ATTACHED" || attachment.owed?.why !== "missing")
    return noChange(volume);
  const intent = { op: "attach", node, epoch: volume.epoch, issuer: at.issuer, opId: at.opId } as const;
  return { volume: { ...volume, intent, updatedAt: at.now }, ended: [], notes: [] };
};

/**
 * What the ControllerPublish of an attachment that the backend has lost was answered. OK: what is mounted from now on is mounted with its
 * new context. Otherwise the record keeps the attachment, so that its detach stays owed for the day on which its last claim goes.
 */
export const reattachAnswered = (
  volume: VolumeRecord,
  node: string,
  outcome: Outcome<Readonly<Record<string, string>>>,
  at: Moment,
): Change => {
  const follow = followOf("reattach", volume, outcome, at, { node });
  const attachment = volume.attachments[node];
  if (follow === "nothing" || attachment === undefined) return noChange(volume);
  if (outcome.kind === "done") {
    const again = { ...settledCall(attachment), publishContext: outcome.value };
    return told(callReturned(withAttachment(volume, again, at.now)));
  }
  const { failure } = outcome;
  const known = attachment.owed?.blocked;
  // A refusal ends the call, and what never left holds nothing: the volume's other calls need not wait for it.
  const free = follow === "again" ? volume : callReturned(volume);
  if (follow === "paused") {
    const trouble = attachTrouble(volume, { node }, { ...failure, advice: "block" }, known, at.now);
    return owedAgain(free, attachment, trouble.failure, trouble.blocked, at);
  }
  const blocked =
    failure.advice === "block" ? blockedBy("attach", failure, { ...volume, node }, known, at.now) : undefined;
  return owedAgain(free, attachment, failure, blocked, at);
};
