/**
 * What the plugin's answers do to an expansion.
 *
 * E1 The volume's capacity changes only by what a plugin has answered, and never becomes less. E2 The intent is in the record
 * before the call (I4), and is given back after each answer but one: while a call may still run at a volume that has to be unused.
 * E3 After an attempt without a certain answer no refusal ends the expansion, unless the backend itself tells the size.
 */
import { type Change, noChange } from "../change.ts";
import { isDoubtful } from "../doubt.ts";
import type { Moment } from "../moment.ts";
import { mayBeOpen } from "../open-call.ts";
import { type Failure, neverSent, noAttempts } from "../outcome.ts";
import { failedAttempt } from "../retry.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import {
  cellOf,
  heldOff,
  refusedWith,
  told,
  waiting,
  withNext,
  without,
  withoutBlock,
  withoutExpandIntent,
} from "./expand-parts.ts";
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
export const expanded = (volume: VolumeRecord, result: ExpandedVolume, at: Moment): Change => {
  const { expansion } = volume;
  if (expansion === undefined || cellOf(volume, "done") !== "settle") return noChange(volume);
  const { required, limit } = expansion.target;
  const actual = Math.max(result.capacity, volume.capacity.actual);
  const freed = withoutExpandIntent(volume);
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

const isInDoubt = (volume: VolumeRecord, expansion: Expansion, at: Moment): boolean =>
  expansion.uncertainSince !== undefined || (volume.intent !== undefined && isDoubtful(volume.intent, at));

/**
 * The plugin said no for certain, about this call. With `known` the backend has told the size besides, so that no earlier attempt is
 * in doubt any more.
 */
export const expandRefused = (
  volume: VolumeRecord,
  failure: Failure,
  known: ExpandedVolume | undefined,
  at: Moment,
): Change => {
  const { expansion } = volume;
  if (expansion === undefined || volume.intent?.op !== "expand") return noChange(volume);
  const { target, next } = expansion;
  // This attempt never left, and the size at the backend tells nothing of a call that is open there.
  if (mayBeOpen(volume)) return heldOff(volume, expansion, failure, true, at);
  if (known !== undefined && known.capacity >= target.required) return expanded(volume, known, at);
  const doubt = known === undefined && isInDoubt(volume, expansion, at);
  if (failure.advice === "block" || doubt) return heldOff(volume, expansion, failure, doubt, at);
  if (cellOf(volume, "refused") !== "refuse") return noChange(volume);
  const freed = withoutExpandIntent(volume);
  if (next !== undefined && next.required < target.required) return told(settled(freed, expansion, at), at);
  return refusedWith(freed, { ...expansion, attempts: failedAttempt(expansion.attempts, failure, at) }, failure, at);
};

/** The plugin could not be called: as it was before the attempt. */
const unsent = (volume: VolumeRecord, expansion: Expansion, failure: Failure, at: Moment): Change => {
  const doubt = isInDoubt(volume, expansion, at);
  const state = cellOf(volume, doubt ? "refused_in_doubt" : "held_off");
  if (state !== "WANTED" && state !== "UNCERTAIN") return noChange(volume);
  const next: Expansion = {
    ...expansion,
    state,
    ...(doubt ? { uncertainSince: expansion.uncertainSince ?? at.now } : {}),
    attempts: failedAttempt(expansion.attempts, failure, at),
  };
  const after = { ...volume, expansion: withNext(volume, next) };
  return told(doubt && expansion.onlyUnused ? after : withoutExpandIntent(after), at);
};

/** No certain answer: the same call again. A call that may still run keeps the volume unused where it has to be (E2). */
export const expandUnknown = (volume: VolumeRecord, failure: Failure, at: Moment): Change => {
  const { expansion } = volume;
  if (expansion === undefined || volume.intent?.op !== "expand") return noChange(volume);
  if (failure.advice === "block") return heldOff(volume, expansion, failure, isInDoubt(volume, expansion, at), at);
  if (neverSent(failure)) return unsent(volume, expansion, failure, at);
  if (cellOf(volume, "unknown") !== "UNCERTAIN") return noChange(volume);
  const uncertain: Expansion = {
    ...withoutBlock(expansion),
    state: "UNCERTAIN",
    uncertainSince: expansion.uncertainSince ?? at.now,
    attempts: failedAttempt(expansion.attempts, failure, at),
  };
  const after = { ...volume, expansion: withNext(volume, uncertain) };
  return told(expansion.onlyUnused || failure.advice === "wait" ? after : withoutExpandIntent(after), at);
};
