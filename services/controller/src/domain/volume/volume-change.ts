import { foreignWords } from "../attachment/foreign-block.ts";
import { blockedFor, createUncertain } from "../blocked.ts";
import { blockedBy } from "../blocked-by.ts";
import { type Change, noChange, volumeNote } from "../change.ts";
import { earlyClaimsEnded, hasNoRoom, isUnbound, roomless, unboundAgain } from "../claim/early-claims.ts";
import { doubted, isDoubtful } from "../doubt.ts";
import type { Moment } from "../moment.ts";
import { followOf, obligationOf } from "../obligation/obligation.ts";
import { type Blocked, endingOf, type Failure, neverSent, noAttempts, type Outcome } from "../outcome.ts";
import { failedAttempt } from "../retry.ts";
import { expansionDropped } from "../size/expand-change.ts";
import { modificationDropped } from "./modify-change.ts";
import { type Intent, type Segments, type VolumeRecord, withoutStorage } from "./volume.ts";
import { isRegistered } from "./volume-registration.ts";

/** What CreateVolume answered. */
export interface CreatedVolume {
  readonly externalId: string;
  readonly capacity: number;
  readonly context: Readonly<Record<string, string>>;
  readonly accessible: readonly Segments[];
  readonly pluginVersion: string;
  /** Why it can be nobody's: it is deleted again, and the volume fails. */
  readonly unfit?: string;
}

const told = (volume: VolumeRecord): Change => ({ volume, ended: [], notes: [volumeNote(volume)] });

const gone = (volume: VolumeRecord): Change => ({ volume: null, ended: [], notes: [volumeNote(volume, "DELETED")] });

const entering = (volume: VolumeRecord, state: VolumeRecord["state"], now: number) =>
  volume.state === state ? { state } : { state, stateSince: now };

const plain = (volume: VolumeRecord): VolumeRecord => {
  const { intent: _i, blocked: _b, ...rest } = volume;
  return rest;
};

const deleteIntent = (volume: VolumeRecord, at: Moment): Intent => ({
  op: "delete",
  epoch: volume.epoch,
  issuer: at.issuer,
  opId: at.opId,
});

/**
 * The backend named the volume. When it is no longer wanted, or is not what was wanted, its removal follows: a cancelled create is create,
 * then delete (I5). That delete has an intent of its own, as it may be open at its gate when the create is not.
 */
const created = (volume: VolumeRecord, result: CreatedVolume, at: Moment): Change => {
  const named: VolumeRecord = {
    ...plain(volume),
    externalId: result.externalId,
    pluginVersion: result.pluginVersion,
    capacity: { ...volume.capacity, actual: result.capacity },
    context: result.context,
    topology: { ...volume.topology, accessible: result.accessible },
    attempts: noAttempts,
    updatedAt: at.now,
  };
  const deleting = (failure: Pick<VolumeRecord, "failure"> = {}): Change =>
    told({ ...named, ...failure, ...entering(volume, "DELETING", at.now), intent: deleteIntent(named, at) });
  if (volume.goal === "absent" || volume.binding?.undo === true) return deleting();
  if (result.unfit !== undefined) return deleting({ failure: { reason: "PLUGIN_REFUSED", message: result.unfit } });
  return told({ ...named, ...entering(volume, "AVAILABLE", at.now) });
};

const createFailed = (volume: VolumeRecord, failure: Failure, at: Moment): VolumeRecord => ({
  ...plain(volume),
  ...entering(volume, "FAILED", at.now),
  failure: endingOf(failure, volume.attempts.count),
  attempts: failedAttempt(volume.attempts, failure, at),
  updatedAt: at.now,
});

/** Before its first call: from now on it is asked for at the instance of this place, and found there. */
export const homeChosen = (volume: VolumeRecord, home: Segments, at: Moment): Change =>
  obligationOf(volume) !== "create" || volume.intent?.uncertainSince !== undefined
    ? noChange(volume)
    : { volume: { ...volume, home, updatedAt: at.now }, ended: [], notes: [] };

const blockedOn = (step: "create" | "delete", volume: VolumeRecord, failure: Failure, at: Moment) =>
  failure.advice === "block" ? blockedBy(step, failure, volume, volume.blocked, at.now) : undefined;

/** The same call later. */
const askedAgain = (
  volume: VolumeRecord,
  failure: Failure,
  doubtful: boolean,
  blocked: Blocked | undefined,
  at: Moment,
): Change => {
  const { blocked: _old, ...rest } = doubtful ? doubted(volume, at) : volume;
  return told({
    ...rest,
    ...(blocked === undefined ? {} : { blocked }),
    attempts: failedAttempt(volume.attempts, failure, at),
    updatedAt: at.now,
  });
};

/** No certain answer, or none that ends it. What was never sent, and what is only blocked, adds no doubt; what is left behind does. */
const createAgain = (volume: VolumeRecord, failure: Failure, blocked: Blocked | undefined, at: Moment): Change => {
  const lost = !neverSent(failure) && (failure.advice === "again" || failure.advice === "wait");
  return askedAgain(volume, failure, lost || failure.leaves === true, blocked, at);
};

/** What CreateVolume was answered. Claims that were there early end with a volume that cannot be made. */
export const createAnswered = (volume: VolumeRecord, outcome: Outcome<CreatedVolume>, at: Moment): Change => {
  const full = outcome.kind !== "done" && hasNoRoom(volume, outcome.failure);
  const follow = followOf("create", volume, outcome, at, { full });
  if (outcome.kind === "done") return follow === "done" ? created(volume, outcome.value, at) : noChange(volume);
  const { failure } = outcome;
  switch (follow) {
    case "failed":
      return earlyClaimsEnded(told(createFailed(volume, failure, at)), at);
    // The name may stand at the backend.
    case "uncertain": {
      const { intent } = doubted(volume, at);
      const blocked = createUncertain(volume, failure, at.now);
      const failed = { ...createFailed(volume, failure, at), blocked };
      return earlyClaimsEnded(told(intent === undefined ? failed : { ...failed, intent }), at);
    }
    case "gone":
      return gone(plain(volume));
    case "elsewhere":
      return roomless(volume, failure, at);
    case "again":
      return createAgain(volume, failure, blockedOn("create", volume, failure, at), at);
    default:
      return noChange(volume);
  }
};

/** What stands against a delete; empty = it may go on. The guard of the volume machine. */
export const usersOf = (volume: VolumeRecord): readonly string[] => [
  ...Object.values(volume.claims).map(
    (c) => `claim of workload ${c.workload} (${c.alias}) on node ${c.node}, ${c.state}`,
  ),
  ...Object.values(volume.attachments)
    .filter((a) => !Object.values(volume.claims).some((c) => c.node === a.node))
    .map((a) => `attachment to node ${a.node}, ${a.state}`),
  ...volume.bars.map(({ op, via }) => `bar: a call "${op}" may be open at "${via}"`),
  ...(volume.foreign ?? []).map((hold) => foreignWords(volume, hold)),
];

/** Calls of the volume itself, which a deletion takes over from. */
const givesWay: ReadonlySet<Intent["op"]> = new Set<Intent["op"]>(["create", "validate", "delete"]);

/** A call of the volume that has to end before it is deleted. */
export const callBeforeDelete = ({ intent }: Pick<VolumeRecord, "intent">): Intent | undefined =>
  intent === undefined || givesWay.has(intent.op) ? undefined : intent;

/** What a volume that goes was still to become, it need not become any more. */
const unchanging = (volume: VolumeRecord): VolumeRecord => {
  const { growth: _g, ...rest } = modificationDropped(expansionDropped(volume));
  return rest;
};

const soughtAgain = (volume: VolumeRecord, at: Moment): VolumeRecord => {
  const { blocked: _b, failure: _f, ...rest } = volume;
  return { ...rest, ...entering(volume, "CREATING", at.now) };
};

/** A caller wants it gone. The caller has seen that usersOf is empty; it is checked again here, in the same record. */
export const deleteWanted = (volume: VolumeRecord, trace: VolumeRecord["trace"], at: Moment): Change => {
  if (volume.goal === "absent" && volume.state !== "FAILED") return noChange(volume);
  if (usersOf(volume).length > 0) return noChange(volume);
  const wanted: VolumeRecord = {
    ...volume,
    goal: "absent",
    ...(trace === undefined ? {} : { trace }),
    attempts: noAttempts,
    updatedAt: at.now,
  };
  switch (volume.state) {
    case "CREATING":
      // What was only asked about is not ours to remove, and asking leaves nothing behind; nor does what nobody asked for yet.
      return isRegistered(volume) || isUnbound(volume) ? gone(plain(wanted)) : told(wanted);
    // What was made in a place without room for it, or too small, is on its way out already; now nothing follows.
    case "DELETING":
      return told(wanted);
    case "FAILED":
      // Deletable without a call if it never was uncertain; a doubtful one is looked for once more by its name, to be deleted then.
      return volume.intent?.uncertainSince === undefined ? gone(plain(wanted)) : told(soughtAgain(wanted, at));
    case "AVAILABLE":
      // RETAIN: the record goes, the storage stays, and nothing has to be called for that.
      return volume.policy.reclaim === "retain"
        ? gone(plain(wanted))
        : told({
            ...unchanging(plain(wanted)),
            ...entering(volume, "DELETING", at.now),
            intent: deleteIntent(wanted, at),
          });
  }
};

/**
 * Its own OK. After an attempt without answer that attempt may still arrive, and the removal is not settled. While a bar stands the
 * record stays, DELETING and without an intent: an overtaken delete may still meet what is made under the same name.
 */
const deleted = (volume: VolumeRecord, at: Moment): Change => {
  const { intent, bars } = volume;
  if (bars.length > 0) return told({ ...plain(volume), attempts: noAttempts, updatedAt: at.now });
  const doubtful = intent === undefined || isDoubtful(intent, at);
  return { ...afterDelete(volume, at), ...(doubtful ? {} : { settled: true as const }) };
};

/** What was made in a place without room, or is not what was wanted, is gone: the volume goes on, or has failed. */
const afterDelete = (volume: VolumeRecord, at: Moment): Change => {
  if (volume.goal === "absent") return gone(plain(volume));
  if (volume.binding?.undo === true) return told(unboundAgain(volume, at));
  const failed = { ...withoutStorage(plain(volume)), ...entering(volume, "FAILED", at.now), attempts: noAttempts };
  return earlyClaimsEnded(told({ ...failed, updatedAt: at.now }), at);
};

/** Its storage is gone, and so is the last bar: the record goes, too. */
export const deletionEnded = (volume: VolumeRecord, at: Moment): Change =>
  volume.state === "DELETING" && volume.intent === undefined && volume.bars.length === 0
    ? deleted(volume, at)
    : noChange(volume);

/** CreateVolume was answered with storage that another record stands for: neither is touched, and nothing is deleted, ever. */
export const createdTwice = (volume: VolumeRecord, externalId: string, owner: string, at: Moment): Change => {
  if (obligationOf(volume) !== "create") return noChange(volume);
  const message = `plugin ${volume.plugin} answered CreateVolume of ${volume.name} with ${externalId}, which is the storage of ${owner}`;
  const failure: Failure = { reason: "STORAGE_TAKEN", message, advice: "block" };
  if (volume.goal === "absent") return gone(plain(volume));
  return createAgain(volume, failure, blockedFor("STORAGE_TAKEN", volume, message, volume.blocked, at.now), at);
};

/** What DeleteVolume was answered. Still there, or not known: the same call again until it is OK. */
export const deleteAnswered = (volume: VolumeRecord, outcome: Outcome<void>, at: Moment): Change => {
  const follow = followOf("delete", volume, outcome, at);
  if (follow === "nothing") return noChange(volume);
  if (outcome.kind === "done") return deleted(volume, at);
  const failure: Failure = follow === "slowly" ? { ...outcome.failure, advice: "block" } : outcome.failure;
  const doubtful = failure.advice === "again" || failure.advice === "wait";
  return askedAgain(volume, failure, doubtful, blockedOn("delete", volume, failure, at), at);
};
