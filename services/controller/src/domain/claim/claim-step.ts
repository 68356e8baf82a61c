import { toldOfDetach } from "../attachment/attach-pause.ts";
import { type Change, claimNote, endClaim, noChange, withClaim, withoutKey } from "../change.ts";
import { isDoubtful, lateCallMs } from "../doubt.ts";
import type { Moment } from "../moment.ts";
import { mayBeOpen } from "../open-call.ts";
import { type Blocked, endingOf, type Failure, noAttempts } from "../outcome.ts";
import { failedAttempt } from "../retry.ts";
import type { Attachment, Intent, VolumeRecord } from "../volume/volume.ts";
import type { Claim, FinalClaimState } from "./claim.ts";
import { type ClaimEvent, claimMachine, holds } from "./claim-machine.ts";

export const claimsOn = (volume: VolumeRecord, node: string): readonly Claim[] =>
  Object.values(volume.claims).filter((c) => c.node === node && holds[c.state]);

export const detachIntent = (volume: VolumeRecord, node: string, at: Moment): Intent => ({
  op: "detach",
  node,
  epoch: volume.epoch,
  issuer: at.issuer,
  opId: at.opId,
});

/** An attach that is given up without an answer may be the backend's own matter for as long as a call may take. */
const expectingLate = (
  volume: VolumeRecord,
  { node, paused }: Attachment,
  at: Moment,
): Pick<Attachment, "lateAttachUntil"> => {
  const { intent } = volume;
  const inDoubt = intent?.op === "attach" && intent.node === node && isDoubtful(intent, at);
  return inDoubt || paused?.uncertainSince !== undefined ? { lateAttachUntil: at.now + lateCallMs } : {};
};

/**
 * The pair starts to be detached: attachment and, when no other call is in progress, the intent, in one step (I4). An attach of the pair
 * whose call may be open keeps the intent until that call has ended: no detach leaves beside it.
 */
export const startDetach = (volume: VolumeRecord, attachment: Attachment, at: Moment): VolumeRecord => {
  // Whatever was in doubt of a paused attach, its undo makes certain.
  const { paused: _p, ...rest } = { ...attachment, ...expectingLate(volume, attachment, at) };
  return {
    ...volume,
    claims: toldOfDetach(volume, attachment.node),
    attachments: { ...volume.attachments, [attachment.node]: { ...rest, state: "DETACHING" } },
    ...(volume.intent === undefined || (volume.intent.node === attachment.node && !mayBeOpen(volume))
      ? { intent: detachIntent(volume, attachment.node, at) }
      : {}),
  };
};

export const withoutIntent = (volume: VolumeRecord, node: string): VolumeRecord => {
  if (volume.intent?.node !== node) return volume;
  const { intent: _done, ...rest } = volume;
  return rest;
};

/** The failure of a claim whose node was fenced. */
export const nodeFenced = "NODE_FENCED";

export const finalState = ({ failure }: Claim): FinalClaimState =>
  failure === undefined ? "RELEASED" : failure.reason === nodeFenced ? "FENCED" : "FAILED";

/** The node is proved clean of this claim (I2): its last claim there detaches, any other just ends. */
const leave = (volume: VolumeRecord, claim: Claim, at: Moment): Change => {
  const others = claimsOn(volume, claim.node).filter((c) => c.uid !== claim.uid);
  const attachment = volume.attachments[claim.node];
  if (others.length > 0 || attachment === undefined) return endClaim(volume, claim, finalState(claim), at.now);
  if (!attachment.needsCalls) {
    const freed = { ...volume, attachments: withoutKey(volume.attachments, claim.node) };
    return endClaim(freed, claim, finalState(claim), at.now);
  }
  // Over for whoever asks for the same key again: that is a new life, queued behind this one.
  const next: Claim = { ...clean(claim), state: "DETACHING", goal: "released" };
  const after = withClaim(startDetach(volume, attachment, at), next, at.now);
  return { volume: after, ended: [], notes: [claimNote(after, next)] };
};

/** A claim that moved on starts its next effect with a fresh count and no block; where its permit is, its state tells again. */
export const clean = (claim: Claim): Claim => {
  if (claim.blocked === undefined && claim.call === undefined && claim.ahead === undefined)
    return { ...claim, attempts: noAttempts };
  const { blocked: _b, call: _c, ahead: _a, ...rest } = claim;
  return { ...rest, attempts: noAttempts };
};

const moveTo = (volume: VolumeRecord, claim: Claim, at: Moment): Change => {
  const after = withClaim(volume, claim, at.now);
  return { volume: after, ended: [], notes: [claimNote(after, claim)] };
};

/**
 * The one place where a claim's state moves. `edit` is what the event brings (a publication, a failure, the goal);
 * where it goes is read from the table alone.
 */
export const step = (
  volume: VolumeRecord,
  uid: string,
  event: ClaimEvent,
  at: Moment,
  edit: (claim: Claim) => Claim,
): Change => {
  const claim = volume.claims[uid];
  if (claim === undefined) return noChange(volume);
  const cell = claimMachine[claim.state][event];
  switch (cell) {
    case "ignore":
      return noChange(volume);
    case "stay":
      return moveTo(volume, edit(claim), at);
    case "leave":
      return leave(volume, edit(claim), at);
    case "end":
      return endClaim(volume, edit(claim), finalState(edit(claim)), at.now);
    default:
      return moveTo(volume, { ...clean(edit(claim)), state: cell }, at);
  }
};

export const failing =
  (failure: Failure) =>
  (claim: Claim): Claim =>
    claim.failure === undefined ? { ...claim, failure: endingOf(failure, claim.attempts.count) } : claim;

export const retrying =
  (failure: Failure, at: Moment, blocked?: Blocked) =>
  (claim: Claim): Claim => {
    const { blocked: _old, call: _over, ...rest } = claim;
    return {
      ...rest,
      attempts: failedAttempt(claim.attempts, failure, at),
      ...(blocked === undefined ? {} : { blocked }),
    };
  };
