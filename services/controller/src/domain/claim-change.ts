import { type Change, claimNote, endClaim, noChange, withClaim, withoutKey } from "./change.ts";
import type { Claim, Publication } from "./claim.ts";
import { type ClaimEvent, claimMachine, holds } from "./claim-machine.ts";
import type { Blocked, Failure } from "./outcome.ts";
import { noAttempts } from "./outcome.ts";
import { failedAttempt, type RetryRule } from "./retry.ts";
import type { Attachment, Intent, VolumeRecord } from "./volume.ts";

/** Everything that a decision may need from outside; time and ids are arguments. */
export interface Moment {
  readonly now: number;
  readonly issuer: string;
  readonly opId: string;
  /** In [0, 1): spreads retries. */
  readonly random: number;
  readonly retry: RetryRule;
  readonly traceId?: string;
}

const claimsOn = (volume: VolumeRecord, node: string): readonly Claim[] =>
  Object.values(volume.claims).filter((c) => c.node === node && holds[c.state]);

const detachIntent = (volume: VolumeRecord, node: string, at: Moment): Intent => ({
  op: "detach",
  node,
  epoch: volume.epoch,
  issuer: at.issuer,
  opId: at.opId,
});

/** The pair starts to be detached: attachment and, when no other call is in progress, the intent, in one step (I4). */
const startDetach = (volume: VolumeRecord, attachment: Attachment, at: Moment): VolumeRecord => ({
  ...volume,
  attachments: { ...volume.attachments, [attachment.node]: { ...attachment, state: "DETACHING" } },
  ...(volume.intent === undefined || volume.intent.node === attachment.node
    ? { intent: detachIntent(volume, attachment.node, at) }
    : {}),
});

const withoutIntent = (volume: VolumeRecord, node: string): VolumeRecord => {
  if (volume.intent?.node !== node) return volume;
  const { intent: _done, ...rest } = volume;
  return rest;
};

const finalState = (claim: Claim): "FAILED" | "RELEASED" => (claim.failure === undefined ? "RELEASED" : "FAILED");

/** The node is proved clean of this claim (I2): its last claim there detaches, any other just ends. */
const leave = (volume: VolumeRecord, claim: Claim, at: Moment): Change => {
  const others = claimsOn(volume, claim.node).filter((c) => c.uid !== claim.uid);
  const attachment = volume.attachments[claim.node];
  if (others.length > 0 || attachment === undefined) return endClaim(volume, claim, finalState(claim), at.now);
  if (!attachment.needsCalls) {
    const freed = { ...volume, attachments: withoutKey(volume.attachments, claim.node) };
    return endClaim(freed, claim, finalState(claim), at.now);
  }
  const next: Claim = { ...clean(claim), state: "DETACHING" };
  const after = withClaim(startDetach(volume, attachment, at), next, at.now);
  return { volume: after, ended: [], notes: [claimNote(after, next)] };
};

/** A claim that moved on starts its next effect with a fresh count and no block. */
const clean = (claim: Claim): Claim => {
  const { blocked: _b, ...rest } = claim;
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
const step = (
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

const failing =
  (failure: Failure) =>
  (claim: Claim): Claim =>
    claim.failure === undefined ? { ...claim, failure: { reason: failure.reason, message: failure.message } } : claim;

const retrying =
  (failure: Failure, at: Moment, blocked?: Blocked) =>
  (claim: Claim): Claim => {
    const { blocked: _old, ...rest } = claim;
    return {
      ...rest,
      attempts: failedAttempt(claim.attempts, failure, at),
      ...(blocked === undefined ? {} : { blocked }),
    };
  };

export const queueTimedOut = (volume: VolumeRecord, uid: string, holders: string, at: Moment): Change =>
  step(volume, uid, "queue_timeout", at, (claim) => ({
    ...claim,
    failure: { reason: "QUEUE_TIMEOUT", message: `not granted before its deadline; held by ${holders}` },
  }));

export const releaseWanted = (volume: VolumeRecord, uid: string, trace: Claim["trace"], at: Moment): Change =>
  step(volume, uid, "release_wanted", at, (claim) =>
    claim.goal === "released" ? claim : { ...claim, goal: "released", ...(trace === undefined ? {} : { trace }) },
  );

/**
 * Another member of its set can never be had: all or nothing, so this one ends too, by the way its state allows.
 * A queued claim just ends; a granted one is released and ends FAILED once that is proved.
 */
export const memberFailed = (volume: VolumeRecord, uid: string, failure: Failure, at: Moment): Change =>
  step(volume, uid, "release_wanted", at, (claim) => ({ ...failing(failure)(claim), goal: "released" }));

/** ControllerPublish answered OK for a node: the claims that waited for it are offered, or undone when no longer wanted. */
export const attached = (
  volume: VolumeRecord,
  node: string,
  context: Readonly<Record<string, string>>,
  at: Moment,
): Change => {
  const attachment = volume.attachments[node];
  if (attachment?.state !== "ATTACHING" || volume.intent?.op !== "attach" || volume.intent.node !== node)
    return noChange(volume);
  const holding = withoutIntent(
    {
      ...volume,
      attachments: { ...volume.attachments, [node]: { ...attachment, state: "ATTACHED", publishContext: context } },
    },
    node,
  );
  return eachAttaching(holding, node, (v, claim) =>
    claim.goal === "released" ? giveUpAttach(v, claim.uid, at) : step(v, claim.uid, "attached", at, (c) => c),
  );
};

/** ControllerPublish refused. Only when no attempt before was uncertain does that prove that nothing is attached. */
export const attachRefused = (volume: VolumeRecord, node: string, failure: Failure, at: Moment): Change => {
  const attachment = volume.attachments[node];
  if (attachment?.state !== "ATTACHING" || volume.intent?.op !== "attach" || volume.intent.node !== node)
    return noChange(volume);
  if (volume.intent.uncertainSince !== undefined)
    return eachAttaching(volume, node, (v, claim) => attachOwed(v, claim.uid, failure, at));
  const freed = withoutIntent({ ...volume, attachments: withoutKey(volume.attachments, node) }, node);
  return eachAttaching(freed, node, (v, claim) => step(v, claim.uid, "attach_refused", at, failing(failure)));
};

/** No certain answer: the same call again, or its undo when nobody wants it any more. */
export const attachUnknown = (
  volume: VolumeRecord,
  node: string,
  failure: Failure,
  blocked: Blocked | undefined,
  at: Moment,
): Change => {
  const intent = volume.intent;
  if (intent?.op !== "attach" || intent.node !== node) return noChange(volume);
  // A call that is still running, or blocked on somebody else's attachment, was answered; only a lost answer is uncertain.
  const doubtful = failure.advice === "again" || failure.advice === "wait";
  const marked: VolumeRecord =
    doubtful && intent.uncertainSince === undefined
      ? { ...volume, intent: { ...intent, uncertainSince: at.now } }
      : volume;
  return eachAttaching(marked, node, (v, claim) =>
    claim.goal === "released"
      ? giveUpAttach(v, claim.uid, at)
      : step(v, claim.uid, "attach_unknown", at, retrying(failure, at, blocked)),
  );
};

/** The claim is not wanted any more and no call is in flight: its undo starts, or others go on with the attach. */
export const attachAbandoned = (volume: VolumeRecord, uid: string, at: Moment): Change =>
  volume.claims[uid]?.state === "ATTACHING" && volume.claims[uid]?.goal === "released"
    ? giveUpAttach(volume, uid, at)
    : noChange(volume);

/** Claims of the node that stay with the attachment when `uid` gives it up. */
const staying = (volume: VolumeRecord, uid: string, node: string): boolean =>
  claimsOn(volume, node).some(
    (c) => c.uid !== uid && c.state !== "DETACHING" && !(c.state === "ATTACHING" && c.goal === "released"),
  );

/** A claim that was never offered lets go of its attachment: the last one owes its undo, any other just ends. */
const giveUpAttach = (volume: VolumeRecord, uid: string, at: Moment): Change => {
  const claim = volume.claims[uid];
  if (claim === undefined) return noChange(volume);
  return staying(volume, uid, claim.node)
    ? endClaim(volume, claim, finalState(claim), at.now)
    : attachOwed(volume, uid, undefined, at);
};

/** The attach may have happened and is not wanted, or not possible: its undo is owed. */
const attachOwed = (volume: VolumeRecord, uid: string, failure: Failure | undefined, at: Moment): Change => {
  const claim = volume.claims[uid];
  const attachment = claim === undefined ? undefined : volume.attachments[claim.node];
  if (claim === undefined || attachment === undefined) return noChange(volume);
  return step(
    startDetach(volume, attachment, at),
    uid,
    "attach_owed",
    at,
    failure === undefined ? (c) => c : failing(failure),
  );
};

const eachAttaching = (volume: VolumeRecord, node: string, fn: (v: VolumeRecord, claim: Claim) => Change): Change =>
  Object.values(volume.claims)
    .filter((c) => c.node === node && c.state === "ATTACHING")
    .reduce<Change>((sum, claim) => {
      if (sum.volume === null) return sum;
      const next = fn(sum.volume, claim);
      return { volume: next.volume, ended: [...sum.ended, ...next.ended], notes: [...sum.notes, ...next.notes] };
    }, noChange(volume));

/** The agent journalled PUBLISHED and saw the mount. */
export const published = (volume: VolumeRecord, uid: string, publication: Publication, at: Moment): Change =>
  step(volume, uid, "published", at, (claim) => {
    const { degradedSince: _healed, ...rest } = clean(claim);
    return { ...rest, publication };
  });

/** The agent journalled RELEASED(e) instead of a mount: nothing of the claim is left on the node. */
export const notMounted = (volume: VolumeRecord, uid: string, failure: Failure, at: Moment): Change =>
  step(volume, uid, "not_mounted", at, failing(failure));

export const permitRefused = (
  volume: VolumeRecord,
  uid: string,
  failure: Failure,
  blocked: Blocked,
  at: Moment,
): Change =>
  step(volume, uid, "permit_refused", at, (claim) =>
    claim.state === "ACTIVE"
      ? { ...retrying(failure, at, blocked)(claim), degradedSince: claim.degradedSince ?? at.now }
      : { ...failing(failure)(claim), goal: "released" },
  );

export const publishUnknown = (
  volume: VolumeRecord,
  uid: string,
  failure: Failure,
  blocked: Blocked | undefined,
  at: Moment,
): Change => step(volume, uid, "publish_unknown", at, retrying(failure, at, blocked));

export const publicationLost = (volume: VolumeRecord, uid: string, at: Moment): Change =>
  step(volume, uid, "publication_lost", at, (claim) => ({
    ...claim,
    attempts: noAttempts,
    degradedSince: claim.degradedSince ?? at.now,
  }));

export const released = (volume: VolumeRecord, uid: string, at: Moment): Change =>
  step(volume, uid, "released", at, (claim) => claim);

export const releaseUnknown = (
  volume: VolumeRecord,
  uid: string,
  failure: Failure,
  blocked: Blocked | undefined,
  at: Moment,
): Change => step(volume, uid, "release_unknown", at, retrying(failure, at, blocked));

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
  return eachDetaching(freed, node, (v, claim) => step(v, claim.uid, "detached", at, (c) => c));
};

export const detachUnknown = (
  volume: VolumeRecord,
  node: string,
  failure: Failure,
  blocked: Blocked | undefined,
  at: Moment,
): Change =>
  volume.attachments[node]?.state !== "DETACHING"
    ? noChange(volume)
    : eachDetaching(volume, node, (v, claim) =>
        step(v, claim.uid, "detach_unknown", at, retrying(failure, at, blocked)),
      );

const eachDetaching = (volume: VolumeRecord, node: string, fn: (v: VolumeRecord, claim: Claim) => Change): Change =>
  Object.values(volume.claims)
    .filter((c) => c.node === node && c.state === "DETACHING")
    .reduce<Change>((sum, claim) => {
      if (sum.volume === null) return sum;
      const next = fn(sum.volume, claim);
      return { volume: next.volume, ended: [...sum.ended, ...next.ended], notes: [...sum.notes, ...next.notes] };
    }, noChange(volume));
