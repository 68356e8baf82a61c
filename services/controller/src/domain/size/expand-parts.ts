/** What all changes of an expansion are made of. Where requests lead is read from `expandMachine`, where answers do from the table of obligations. */
import { blockedFor } from "../blocked.ts";
import { blockedBy } from "../blocked-by.ts";
import { type Change, volumeNote } from "../change.ts";
import type { Moment } from "../moment.ts";
import { callReturned, wishAgain } from "../obligation/wish.ts";
import { mayBeOpen } from "../open-call.ts";
import { type Blocked, type Ending, endingOf, type Failure, noAttempts } from "../outcome.ts";
import type { OwedEvent } from "../owed-events.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import { type ExpandPlace, expandMachine } from "./expand-machine.ts";
import type { Expansion } from "./expansion.ts";
import { isUnused, sizeOf } from "./growth.ts";

export const expandPlace = ({ expansion }: VolumeRecord): ExpandPlace => expansion?.state ?? "NONE";

export const cellOf = (volume: VolumeRecord, event: OwedEvent) => expandMachine[expandPlace(volume)][event];

export const told = (volume: VolumeRecord, at: Moment): Change => {
  const after = { ...volume, updatedAt: at.now };
  return { volume: after, ended: [], notes: [volumeNote(after)] };
};

export const without = (volume: VolumeRecord): VolumeRecord => {
  const { expansion: _e, ...rest } = volume;
  return rest;
};

export const withoutBlock = (expansion: Expansion): Expansion => {
  const { blocked: _b, ...rest } = expansion;
  return rest;
};

const inUse = (volume: VolumeRecord, previous: Blocked | undefined, now: number, assumed = false): Blocked => {
  const nodes = Object.keys(volume.attachments);
  const has = `this one is on node ${nodes.slice(0, 5).join(", ")}${nodes.length > 5 ? ` and ${nodes.length - 5} more` : ""}`;
  const { plugin } = volume;
  const message = assumed
    ? `plugin ${plugin} does not say whether it expands volumes in use, so it is asked only for volumes that are not, and ${has}; if it can, write "assumed_expansion: online" into its profile (holdfast plugin profile ${plugin} <file>) and ask for the size again`
    : `plugin ${plugin} expands only volumes that are not in use, and ${has}`;
  return blockedFor("EXPAND_IN_USE", volume, message, previous, now);
};

/** It waits for the last node to let go, and says so; or it no longer has to. */
export const waiting = (volume: VolumeRecord, expansion: Expansion, now: number): Expansion =>
  expansion.onlyUnused && !isUnused(volume)
    ? { ...expansion, blocked: inUse(volume, expansion.blocked, now, expansion.assumed) }
    : expansion;

export const refusedWith = (volume: VolumeRecord, expansion: Expansion, failure: Ending, at: Moment): Change => {
  const { next: _n, uncertainSince: _u, ...rest } = withoutBlock(expansion);
  return told({ ...volume, expansion: { ...rest, state: "REFUSED", failure: endingOf(failure) } }, at);
};

/** CSI: FAILED_PRECONDITION of a volume in use means that it can be expanded only while it is not. */
const wantsUnused = (volume: VolumeRecord, { code }: Failure): boolean =>
  code === "FAILED_PRECONDITION" && !isUnused(volume);

/** Tried again, slowly: once the volume is free, or somebody has done what is missing. */
export const heldOff = (
  volume: VolumeRecord,
  expansion: Expansion,
  failure: Failure,
  doubt: boolean,
  at: Moment,
): Change => {
  const { blocked: before } = expansion;
  const unused = wantsUnused(volume, failure);
  const blocked = unused
    ? inUse(volume, before, at.now)
    : doubt && !mayBeOpen(volume)
      ? blockedFor("EXPAND_UNCERTAIN", volume, failure.message, before, at.now)
      : blockedBy("expand", failure, volume, before, at.now);
  const next = wishAgain({ ...expansion, blocked }, { ...failure, advice: "block" }, doubt, at);
  const held = { ...next, onlyUnused: expansion.onlyUnused || unused };
  return told(callReturned({ ...volume, expansion: withNext(volume, held) }), at);
};

/** After an answer, whatever it was, the wish that came meanwhile takes the place of the one before. */
export const withNext = (volume: VolumeRecord, expansion: Expansion): Expansion => {
  const { next, ...rest } = expansion;
  // A call that may be open is repeated as it was: another wish waits for its end.
  if (next === undefined || mayBeOpen(volume)) return expansion;
  // A smaller one than a call that may have worked is asked for without its limit: the backend may be beyond it already.
  const lowered = next.required < expansion.target.required && expansion.uncertainSince !== undefined;
  const required = Math.max(next.required, sizeOf(volume));
  return { ...rest, target: lowered ? { required, limit: 0 } : next, attempts: noAttempts };
};
