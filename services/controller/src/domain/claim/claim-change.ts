import { type Change, noChange, unmountedNote, withClaim } from "../change.ts";
import type { Moment } from "../moment.ts";
import type { Blocked, Failure } from "../outcome.ts";
import { noAttempts } from "../outcome.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { Claim, Publication } from "./claim.ts";
import { clean, failing, retrying, step } from "./claim-step.ts";

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

/** The agent journalled PUBLISHED and saw the mount. */
export const published = (volume: VolumeRecord, uid: string, publication: Publication, at: Moment): Change =>
  step(volume, uid, "published", at, (claim) => {
    const { degradedSince: _healed, degradedReason: _why, ...rest } = clean(claim);
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

export const publicationLost = (volume: VolumeRecord, uid: string, at: Moment, reason?: string): Change =>
  step(volume, uid, "publication_lost", at, (claim) => ({
    ...claim,
    attempts: noAttempts,
    degradedSince: claim.degradedSince ?? at.now,
    ...(reason === undefined ? {} : { degradedReason: claim.degradedReason ?? reason }),
  }));

/** The agent does not hold the permit: it is pushed again now, whatever the backoff says. */
export const offerAgain = (volume: VolumeRecord, uid: string, at: Moment): Change => {
  const claim = volume.claims[uid];
  return claim?.state === "OFFERED" && claim.attempts.nextTry > at.now
    ? {
        volume: withClaim(volume, { ...claim, attempts: { ...claim.attempts, nextTry: at.now } }, at.now),
        ended: [],
        notes: [],
      }
    : noChange(volume);
};

/** `unmounted`: what the agent took away itself, which watchers are told. */
export const released = (volume: VolumeRecord, uid: string, at: Moment, unmounted: readonly string[] = []): Change => {
  const claim = volume.claims[uid];
  const change = step(volume, uid, "released", at, (same) => same);
  if (claim === undefined || unmounted.length === 0 || change.notes.length === 0) return change;
  return { ...change, notes: [unmountedNote(volume, claim, unmounted), ...change.notes] };
};

export const releaseUnknown = (
  volume: VolumeRecord,
  uid: string,
  failure: Failure,
  blocked: Blocked | undefined,
  at: Moment,
): Change => step(volume, uid, "release_unknown", at, retrying(failure, at, blocked));
