/**
 * How long a call may take, learned for each plugin and method within fixed bounds. A plugin that is slow gets more time, since an
 * answer that comes after its deadline is one that has to be asked for again; one that is fast is noticed sooner when it hangs.
 *
 * D1 Never below `floor` nor above `cap` times the time of the policy table. D2 Below the table's own time only when many calls were
 * seen. D3 A missed deadline doubles the next one; answers take that back slowly.
 */
import type { CallTimes } from "./call-times.ts";

export const bounds = { floor: 1 / 4, cap: 5 };
const enoughSamples = 20;
/** Of the longest that was seen. */
const room = 4;

export interface Deadline {
  /** After a miss. 0: none was missed. */
  readonly atLeastMs: number;
}

export const firstDeadline: Deadline = { atLeastMs: 0 };

export const deadlineMs = (deadline: Deadline, times: CallTimes | undefined, policyMs: number): number => {
  const seen = (times?.peakMs ?? 0) * room;
  const least = (times?.samples ?? 0) < enoughSamples ? policyMs : policyMs * bounds.floor; // D2
  return Math.round(Math.min(policyMs * bounds.cap, Math.max(least, seen, deadline.atLeastMs))); // D1
};

/** `hadMs` is the deadline that was missed. */
export const afterMiss = (hadMs: number, policyMs: number): Deadline => ({
  atLeastMs: Math.min(policyMs * bounds.cap, hadMs * 2), // D3
});

export const afterAnswer = ({ atLeastMs }: Deadline, policyMs: number): Deadline => {
  const next = atLeastMs * 0.95;
  return next < policyMs * bounds.floor ? firstDeadline : { atLeastMs: next };
};
