/**
 * What requests and answers do to a modification. What requests and facts do is read from `modifyMachine`, what
 * answers do from the table of obligations. The volume's parameters change
 * only by an answer; the intent is in the record before the call (I4).
 */
import type { Tri } from "@holdfast/model/tri";
import { callBar } from "../bar.ts";
import { blockedFor } from "../blocked.ts";
import { blockedBy } from "../blocked-by.ts";
import { type Change, noChange, volumeNote } from "../change.ts";
import type { Moment } from "../moment.ts";
import { followOf } from "../obligation/obligation.ts";
import { callReturned, wishAgain, wishInDoubt } from "../obligation/wish.ts";
import { mayBeOpen } from "../open-call.ts";
import { endingOf, type Failure, noAttempts, type Outcome } from "../outcome.ts";
import type { OwedEvent } from "../owed-events.ts";
import { failedAttempt } from "../retry.ts";
import type { Modification } from "./modification.ts";
import { type ModifyPlace, modifyMachine } from "./modify-machine.ts";
import type { VolumeRecord } from "./volume.ts";

export const modifyPlace = ({ modification }: VolumeRecord): ModifyPlace => modification?.state ?? "NONE";

const cellOf = (volume: VolumeRecord, event: OwedEvent) => modifyMachine[modifyPlace(volume)][event];

const told = (volume: VolumeRecord, at: Moment): Change => {
  const after = { ...volume, updatedAt: at.now };
  return { volume: after, ended: [], notes: [volumeNote(after)] };
};

const without = (volume: VolumeRecord): VolumeRecord => {
  const { modification: _m, ...rest } = volume;
  return rest;
};

const withoutBlock = (modification: Modification): Modification => {
  const { blocked: _b, answered: _a, ...rest } = modification;
  return rest;
};

/** A caller wants these keys; `judgeModify` has said that it may. */
export const modificationWanted = (
  volume: VolumeRecord,
  target: Modification["target"],
  trace: Modification["trace"],
  at: Moment,
): Change => {
  const traced = trace === undefined ? {} : { trace };
  switch (cellOf(volume, "wanted")) {
    case "WANTED":
      return told(
        { ...volume, modification: { state: "WANTED", target, attempts: noAttempts, since: at.now, ...traced } },
        at,
      );
    case "retarget": {
      const { modification } = volume;
      if (modification === undefined || volume.intent?.op === "modify") return noChange(volume);
      // Back to what is set already, before anything was called.
      if (Object.keys(target).length === 0) return told(without(volume), at);
      return told(
        { ...volume, modification: { ...withoutBlock(modification), target, attempts: noAttempts, ...traced } },
        at,
      );
    }
    default:
      return noChange(volume);
  }
};

export const modificationDropped = (volume: VolumeRecord): VolumeRecord =>
  cellOf(volume, "dropped") === "NONE" ? without(volume) : volume;

/** Takes the volume's one call, if the plugin has MODIFY_VOLUME; while that is not known it waits. */
export const modificationStarted = (volume: VolumeRecord, can: Tri, at: Moment): Change => {
  const { modification } = volume;
  if (modification === undefined || volume.intent !== undefined || can === "unknown") return noChange(volume);
  if (can === "no") {
    const message = `plugin ${volume.plugin} cannot modify volumes: it lacks the capability MODIFY_VOLUME`;
    const failure: Failure = { reason: "PLUGIN_REFUSED", message, advice: "fail" };
    switch (cellOf(volume, "not_possible")) {
      case "REFUSED":
        return over(volume, modification, failure, at);
      case "UNCERTAIN":
        return heldOff(volume, modification, failure, true, at);
      default:
        return noChange(volume);
    }
  }
  if (callBar(volume, "modify") !== undefined || cellOf(volume, "started") !== "CALLING") return noChange(volume);
  const { answered: _a, ...calling } = modification;
  const intent = { op: "modify", epoch: volume.epoch, issuer: at.issuer, opId: at.opId } as const;
  return told({ ...volume, modification: { ...calling, state: "CALLING" }, intent }, at);
};

const over = (volume: VolumeRecord, modification: Modification, failure: Failure, at: Moment): Change => {
  const attempts = failedAttempt(modification.attempts, failure, at);
  const refused = { ...withoutBlock(modification), state: "REFUSED", attempts, failure: endingOf(failure) } as const;
  return told(callReturned({ ...volume, modification: refused }), at);
};

const heldOff = (
  volume: VolumeRecord,
  modification: Modification,
  failure: Failure,
  doubt: boolean,
  at: Moment,
): Change => {
  const { blocked: before } = modification;
  const next: Modification = {
    ...wishAgain(withoutBlock(modification), { ...failure, advice: "block" }, doubt, at),
    // What was never sent, or may be open, proves nothing of the call before it.
    ...(failure.code === undefined || mayBeOpen(volume) ? {} : { answered: true }),
    blocked:
      doubt && !mayBeOpen(volume)
        ? blockedFor("MODIFY_UNCERTAIN", volume, failure.message, before, at.now)
        : blockedBy("modify", failure, volume, before, at.now),
  };
  return told(callReturned({ ...volume, modification: next }), at);
};

/** What ControllerModifyVolume was answered. One that is known to run keeps others off the volume. */
export const modifyAnswered = (volume: VolumeRecord, outcome: Outcome<unknown>, at: Moment): Change => {
  const { modification } = volume;
  if (modification === undefined) return noChange(volume);
  const doubtful = wishInDoubt(volume, modification, at);
  const follow = followOf("modify", volume, outcome, at, { doubtful });
  if (follow === "nothing") return noChange(volume);
  if (outcome.kind === "done") {
    const mutableParameters = { ...volume.mutableParameters, ...modification.target };
    return told({ ...callReturned(without(volume)), mutableParameters }, at);
  }
  const { failure } = outcome;
  if (follow === "failed") return over(volume, modification, failure, at);
  const again = follow === "again";
  const doubt = again || doubtful || mayBeOpen(volume);
  if (!again && (follow === "paused" || failure.advice === "block"))
    return heldOff(volume, modification, failure, doubt, at);
  const next = wishAgain(again ? withoutBlock(modification) : modification, failure, doubt, at);
  const after = { ...volume, modification: next };
  return told(again && failure.advice === "wait" ? after : callReturned(after), at);
};

/** Somebody asks again for what is blocked: it is tried now. */
export const modificationNudged = (volume: VolumeRecord, at: Moment): Change => {
  const { modification } = volume;
  if (modification?.blocked === undefined || modification.attempts.nextTry <= at.now) return noChange(volume);
  const attempts = { ...modification.attempts, nextTry: at.now };
  return {
    volume: { ...volume, modification: { ...modification, attempts }, updatedAt: at.now },
    ended: [],
    notes: [],
  };
};
