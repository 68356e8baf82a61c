import { blockedBy } from "../blocked-by.ts";
import { type Change, endClaim, foldChanges, noChange, volumeNote, withoutKey } from "../change.ts";
import type { Claim } from "../claim/claim.ts";
import {
  claimsOn,
  clean,
  detachIntent,
  failing,
  finalState,
  retrying,
  startDetach,
  step,
  withoutIntent,
} from "../claim/claim-step.ts";
import { attachedBy, mayBeAhead } from "../claim/permit-ahead.ts";
import { doubted } from "../doubt.ts";
import type { Moment } from "../moment.ts";
import { followOf, owes } from "../obligation/obligation.ts";
import { mayBeOpen } from "../open-call.ts";
import type { Failure, Outcome } from "../outcome.ts";
import type { Attachment, VolumeRecord } from "../volume/volume.ts";
import { attachTrouble, pauseAttach } from "./attach-pause.ts";
import { owedAgain } from "./owed-change.ts";

/** What the answers of ControllerPublish and ControllerUnpublish do to a volume and the claims that wait for them. */

/** ControllerPublish answered OK for a node: the claims that waited for it are offered, or undone when no longer wanted. */
const attached = (
  volume: VolumeRecord,
  attachment: Attachment,
  publishContext: Readonly<Record<string, string>>,
  at: Moment,
  secretRef: string | undefined,
): Change => {
  const { node } = attachment;
  const held = attachedBy(attachment, publishContext, secretRef);
  const holding = withoutIntent({ ...volume, attachments: { ...volume.attachments, [node]: held } }, node);
  return foldChanges(holding, claimsIn(holding, node, "ATTACHING"), (v, claim) =>
    claim.goal === "released" ? giveUpAttach(v, claim.uid, at) : step(v, claim.uid, "attached", at, (c) => c),
  );
};

const attachFailed = (volume: VolumeRecord, node: string, failure: Failure, at: Moment): Change => {
  const freed = withoutIntent({ ...volume, attachments: withoutKey(volume.attachments, node) }, node);
  return foldChanges(freed, claimsIn(freed, node, "ATTACHING"), (v, claim) =>
    step(v, claim.uid, "attach_refused", at, failing(failure)),
  );
};

/** Refused for as long as the backend is as it is: the same call later, or its undo when nobody wants it any more. */
const attachPaused = (volume: VolumeRecord, attachment: Attachment, failure: Failure, at: Moment): Change => {
  const { node } = attachment;
  const free = pauseAttach(volume, attachment, failure, at);
  return foldChanges(free, claimsIn(free, node, "ATTACHING"), (v, claim) => {
    if (claim.goal === "released") return giveUpAttach(v, claim.uid, at);
    const { workload, alias, blocked } = claim;
    const trouble = attachTrouble(v, { node, workload, alias }, failure, blocked, at.now);
    return step(v, claim.uid, "attach_unknown", at, retrying(trouble.failure, at, trouble.blocked));
  });
};

/** What ControllerPublish was answered. `secretRef`: the version of the secret that did it; its undo uses the same. */
export const attachAnswered = (
  volume: VolumeRecord,
  node: string,
  outcome: Outcome<Readonly<Record<string, string>>>,
  at: Moment,
  secretRef?: string,
): Change => {
  const follow = followOf("attach", volume, outcome, at, { node });
  const attachment = volume.attachments[node];
  if (follow === "nothing" || attachment === undefined) return noChange(volume);
  if (outcome.kind === "done") return attached(volume, attachment, outcome.value, at, secretRef);
  const { failure } = outcome;
  switch (follow) {
    case "failed":
      return keeps(volume, node) ? attachUndone(volume, node, failure, at) : attachFailed(volume, node, failure, at);
    case "undo":
      return attachUndone(volume, node, failure, at);
    case "paused":
      return attachPaused(volume, attachment, failure, at);
    // RESOURCE_EXHAUSTED was answered: other nodes of the volume do not wait, and the doubt stays with the attachment (I5).
    case "shaken":
      return triedAgain(pauseAttach(volume, attachment, failure, at, "in doubt"), node, failure, at);
    default:
      return triedAgain(doubted(volume, at), node, failure, at);
  }
};

/** PA3: an agent may have a permit for the attachment. */
const mayBeUsed = (claim: Claim): boolean =>
  mayBeAhead(claim) || (claim.state !== "ATTACHING" && claim.state !== "DETACHING");

const keeps = (volume: VolumeRecord, node: string): boolean => claimsOn(volume, node).some(mayBeUsed);

/** It is not possible, and an attempt may have done it: the claims that wait for it are over, and so is it once no agent may use it. */
const attachUndone = (volume: VolumeRecord, node: string, failure: Failure, at: Moment): Change => {
  const kept = keeps(volume, node);
  return foldChanges(volume, claimsIn(volume, node, "ATTACHING"), (v, claim) => {
    if (mayBeAhead(claim)) return recalled(v, claim.uid, failure, at);
    return kept ? step(v, claim.uid, "attach_refused", at, failing(failure)) : attachOwed(v, claim.uid, failure, at);
  });
};

/** PA3: its agent is asked to let go of what it may have. */
const recalled = (volume: VolumeRecord, uid: string, failure: Failure | undefined, at: Moment): Change =>
  step(volume, uid, "recalled", at, givenUp(failure));

const givenUp =
  (failure: Failure | undefined) =>
  (claim: Claim): Claim => ({ ...(failure === undefined ? claim : failing(failure)(claim)), goal: "released" });

/** The same call again for every claim that still waits for it, and the undo of those that nobody wants any more. */
const triedAgain = (volume: VolumeRecord, node: string, failure: Failure, at: Moment): Change =>
  foldChanges(volume, claimsIn(volume, node, "ATTACHING"), (v, claim) => {
    if (claim.goal === "released") return giveUpAttach(v, claim.uid, at);
    const blocked =
      failure.advice === "block" ? blockedBy("attach", failure, { ...v, node }, claim.blocked, at.now) : undefined;
    return step(v, claim.uid, "attach_unknown", at, retrying(failure, at, blocked));
  });

/** The claim is not wanted any more and no call is in flight: its undo starts, or others go on with the attach. */
export const attachAbandoned = (volume: VolumeRecord, uid: string, at: Moment): Change =>
  volume.claims[uid]?.state === "ATTACHING" && volume.claims[uid]?.goal === "released"
    ? giveUpAttach(volume, uid, at)
    : noChange(volume);

/** Claims of the node that stay with the attachment when `uid` gives it up. */
const staying = (volume: VolumeRecord, uid: string, node: string): boolean =>
  claimsOn(volume, node).some(
    (c) => c.uid !== uid && (mayBeUsed(c) || (c.state === "ATTACHING" && c.goal === "active")),
  );

/**
 * A claim that was never offered lets go of its attachment, or has its permit recalled. While others stay with the attachment, the claim
 * just ends. When nobody does, all that gave it up owe its undo together, or the detach of one would take the attachment from under the
 * others (I6).
 */
const giveUpAttach = (volume: VolumeRecord, uid: string, at: Moment): Change => {
  const claim = volume.claims[uid];
  if (claim?.state !== "ATTACHING") return noChange(volume);
  if (mayBeAhead(claim)) return recalled(volume, uid, undefined, at);
  return staying(volume, uid, claim.node)
    ? endClaim(volume, claim, finalState(claim), at.now)
    : foldChanges(volume, claimsIn(volume, claim.node, "ATTACHING"), (v, other) =>
        attachOwed(v, other.uid, undefined, at),
      );
};

/** The attach may have happened and is not wanted, or not possible: its undo is owed. */
const attachOwed = (volume: VolumeRecord, uid: string, failure: Failure | undefined, at: Moment): Change => {
  const claim = volume.claims[uid];
  const attachment = claim === undefined ? undefined : volume.attachments[claim.node];
  if (claim === undefined || attachment === undefined) return noChange(volume);
  return step(startDetach(volume, attachment, at), uid, "attach_owed", at, givenUp(failure));
};

const claimsIn = (volume: VolumeRecord, node: string, state: Claim["state"]): readonly Claim[] =>
  Object.values(volume.claims).filter((c) => c.node === node && c.state === state);

/** The attach of a pair that is given up has ended, however: its undo starts now, with an intent of its own (I4). */
export const attachFinished = (volume: VolumeRecord, node: string, at: Moment): Change => {
  if (!owes(volume, "finish", node) || mayBeOpen(volume)) return noChange(volume);
  const fresh = Object.fromEntries(claimsIn(volume, node, "DETACHING").map((c) => [c.uid, clean(c)]));
  const next: VolumeRecord = {
    ...volume,
    claims: { ...volume.claims, ...fresh },
    intent: detachIntent(volume, node, at),
    updatedAt: at.now,
  };
  return { volume: next, ended: [], notes: [] };
};

/** What the attach of a pair that is given up was answered. */
export const finishAnswered = (volume: VolumeRecord, node: string, outcome: Outcome<unknown>, at: Moment): Change =>
  outcome.kind !== "done" && followOf("finish", volume, outcome, at, { node }) === "again"
    ? undoAgain(volume, node, outcome.failure, "attach", at)
    : attachFinished(volume, node, at);

/** A detach that waited for another call of the volume gets its intent now (I4). */
export const detachStarted = (volume: VolumeRecord, node: string, at: Moment): Change =>
  volume.intent !== undefined || volume.attachments[node]?.state !== "DETACHING"
    ? noChange(volume)
    : { volume: { ...volume, intent: detachIntent(volume, node, at), updatedAt: at.now }, ended: [], notes: [] };

/** ControllerUnpublish answered OK: the attachment is gone and so are the claims that waited for it. */
export const detached = (volume: VolumeRecord, node: string, at: Moment): Change => {
  if (volume.attachments[node]?.state !== "DETACHING") return noChange(volume);
  const freed = withoutIntent(
    { ...volume, attachments: withoutKey(volume.attachments, node), updatedAt: at.now },
    node,
  );
  const waiting = claimsIn(freed, node, "DETACHING");
  if (waiting.length === 0) return { volume: freed, ended: [], notes: [volumeNote(freed)] };
  return foldChanges(freed, waiting, (v, claim) => step(v, claim.uid, "detached", at, (c) => c));
};

/** What ControllerUnpublish was answered. No refusal proves that anything is gone: the same call again, slowly, until it is OK. */
export const detachAnswered = (volume: VolumeRecord, node: string, outcome: Outcome<void>, at: Moment): Change => {
  const follow = followOf("detach", volume, outcome, at, { node });
  if (follow === "nothing") return noChange(volume);
  if (outcome.kind === "done") return detached(volume, node, at);
  const failure: Failure = follow === "slowly" ? { ...outcome.failure, advice: "block" } : outcome.failure;
  return undoAgain(volume, node, failure, failure.advice === "block" ? "detach" : undefined, at);
};

/** `blocked`: the call that waits for something, which the record says. */
const undoAgain = (
  volume: VolumeRecord,
  node: string,
  failure: Failure,
  blocked: "attach" | "detach" | undefined,
  at: Moment,
): Change => {
  const attachment = volume.attachments[node];
  if (attachment === undefined) return noChange(volume);
  const waiting = claimsIn(volume, node, "DETACHING");
  const known = (waiting[0] ?? attachment.owed)?.blocked;
  const why = blocked && blockedBy(blocked, failure, { ...volume, node }, known, at.now);
  if (waiting.length === 0) return owedAgain(volume, attachment, failure, why, at);
  return foldChanges(volume, waiting, (v, claim) =>
    step(v, claim.uid, "detach_unknown", at, retrying(failure, at, why)),
  );
};
