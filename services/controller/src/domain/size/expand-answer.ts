/**
 * What the plugin's answers do to an expansion.
 *
 * E1 The volume's capacity changes only by what a plugin has answered, and never becomes less. E2 The intent is in the record
 * before the call (I4), and is given back after each answer but one: while a call may still run at a volume that has to be unused.
 * E3 After an attempt without a certain answer no refusal ends the expansion, unless the backend itself tells the size.
 */
import { type Change, noChange } from "../change.ts";
import type { Moment } from "../moment.ts";
import { followOf } from "../obligation/obligation.ts";
import { callReturned, wishAgain, wishInDoubt } from "../obligation/wish.ts";
import { mayBeOpen } from "../open-call.ts";
import { type Failure, noAttempts, type Outcome } from "../outcome.ts";
import { failedAttempt } from "../retry.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import { heldOff, refusedWith, told, waiting, withNext, without, withoutBlock } from "./expand-parts.ts";
import type { Expansion } from "./expansion.ts";
import { growthTo, sizeOf } from "./growth.ts";

/** What ControllerExpandVolume answered. */
export interface ExpandedVolume {
  readonly capacity: number;
  /** NodeExpandVolume has to follow wherever the volume is used, or when it is used next. */
  readonly nodesFollow: boolean;
}

/** The wish that came while the call was under way, if it is not fulfilled by what it brought. */
const settled = (volume: VolumeRecord, expansion: Expansion, at: Moment): VolumeRecord => {
  const { next } = expansion;
  if (next === undefined || next.required <= sizeOf(volume)) return without(volume);
  const { next: _n, uncertainSince: _u, failure: _f, ...rest } = withoutBlock(expansion);
  return {
    ...volume,
    expansion: waiting(volume, { ...rest, state: "WANTED", target: next, attempts: noAttempts }, at.now),
  };
};

/** The backend has grown it (E1). Nodes that have to follow are owed in the same record. */
const expanded = (volume: VolumeRecord, expansion: Expansion, result: ExpandedVolume, at: Moment): Change => {
  const { required, limit } = expansion.target;
  const actual = Math.max(result.capacity, volume.capacity.actual);
  const freed = callReturned(volume);
  const grown: VolumeRecord = {
    ...freed,
    capacity: {
      required: Math.max(required, volume.capacity.required),
      limit: limit > 0 || volume.capacity.limit < actual ? limit : volume.capacity.limit,
      actual,
    },
    ...(result.nodesFollow ? { growth: growthTo(freed, actual, limit, false, at.now) } : {}),
  };
  return told(settled(grown, expansion, at), at);
};

/** Refused for certain. A wish for less that came meanwhile takes its place. */
const refused = (volume: VolumeRecord, expansion: Expansion, failure: Failure, at: Moment): Change => {
  const { target, next } = expansion;
  const freed = callReturned(volume);
  if (next !== undefined && next.required < target.required) return told(settled(freed, expansion, at), at);
  return refusedWith(freed, { ...expansion, attempts: failedAttempt(expansion.attempts, failure, at) }, failure, at);
};

/** What ControllerExpandVolume was answered. `known`: the size that the backend has told besides. */
export const expandAnswered = (
  volume: VolumeRecord,
  answer: Outcome<ExpandedVolume>,
  known: ExpandedVolume | undefined,
  at: Moment,
): Change => {
  const { expansion } = volume;
  if (expansion === undefined) return noChange(volume);
  // The size at the backend ends the doubt (E3), but tells nothing of a call that is open there.
  const size = answer.kind !== "refused" || mayBeOpen(volume) ? undefined : known;
  const fits = size !== undefined && size.capacity >= expansion.target.required;
  const outcome: Outcome<ExpandedVolume> = fits ? { kind: "done", value: size } : answer;
  const doubtful = size === undefined && wishInDoubt(volume, expansion, at);
  const follow = followOf("expand", volume, outcome, at, { doubtful });
  if (follow === "nothing") return noChange(volume);
  if (outcome.kind === "done") return expanded(volume, expansion, outcome.value, at);
  const { failure } = outcome;
  if (follow === "failed") return refused(volume, expansion, failure, at);
  const again = follow === "again";
  const doubt = again || doubtful || mayBeOpen(volume);
  if (!again && (follow === "paused" || failure.advice === "block"))
    return heldOff(volume, expansion, failure, doubt, at);
  const next = wishAgain(again ? withoutBlock(expansion) : expansion, failure, doubt, at);
  const after = { ...volume, expansion: withNext(volume, next) };
  // A call that may still run keeps the volume unused where it has to be (E2).
  const keeps = (doubt && expansion.onlyUnused) || (again && failure.advice === "wait");
  return told(keeps ? after : callReturned(after), at);
};
