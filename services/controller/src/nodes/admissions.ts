/**
 * How fast streams of agents are taken: after a restart of a controller thousands of agents dial at once, and each of them registers.
 *
 * AD1 Streams begin at most so many a second, in the order in which they came. AD2 What waits is bounded; one above is refused, and its
 * agent dials again after a pause of its own.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createPace } from "@holdfast/shared/async/pace";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";

export interface AdmissionsOptions {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly perSecond: number;
  readonly maxWaiting: number;
}

export interface Admissions {
  /** Resolves when it is the stream's turn; rejects with the signal's reason. */
  enter(signal: AbortSignal): Promise<void>;
  waiting(): number;
}

export const createAdmissions = ({ clock, perSecond, maxWaiting }: AdmissionsOptions): Admissions => {
  const pace = createPace({ clock, perSecond }); // AD1
  return {
    async enter(signal) {
      if (pace.waiting() >= maxWaiting) throw tooMany(pace.waiting()); // AD2
      await pace.take(1, signal);
    },
    waiting: pace.waiting,
  };
};

const tooMany = (waiting: number): HoldfastError =>
  new HoldfastError({
    kind: "exhausted",
    reason: "OVERLOADED",
    message: `${waiting} streams of agents wait to be taken already; dial again after a pause`,
  });
