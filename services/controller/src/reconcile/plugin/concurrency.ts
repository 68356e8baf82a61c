/**
 * How many calls one plugin gets at once: additive increase, multiplicative decrease, within what its profile allows. Pure.
 *
 * C1 Never below 1, never above `most`. C2 Pushback that was sent before the last decrease is of the same overload, and counts no
 * second time. C3 It grows only while most of it is used. C4 One volume that is slow, or whose calls hang, changes nothing:
 * only answers that say "too much", and calls that are slower all together, lower it.
 */
import type { CallTimes } from "./call-times.ts";

export interface Concurrency {
  /** A fraction is kept, so that growth adds up; `callsAtOnce` is what counts. */
  readonly limit: number;
  readonly loweredAt: number;
}

export type ConcurrencyEvent =
  /** The plugin or its backend said that it has too much to do, or was not there to answer. */
  | { readonly type: "pushback"; readonly startedAt: number }
  /** An answer; `times` of its method include it, `running` counts it too. */
  | { readonly type: "answered"; readonly startedAt: number; readonly running: number; readonly times: CallTimes }
  /** The profile changed. */
  | { readonly type: "most" };

const shrink = 0.5;
const ease = 0.9;
/** So much slower than when it is not pressed, by the medians. */
const slower = 3;
/** Fewer calls than this are not what makes a backend slow. */
const easeAbove = 8;
const enoughSamples = 20;

export const firstConcurrency = (most: number): Concurrency => ({ limit: most, loweredAt: Number.NEGATIVE_INFINITY });

const lowered = (limit: number, now: number): Concurrency => ({ limit: Math.max(1, limit), loweredAt: now });

export const concurrencyStep = (
  before: Concurrency,
  event: ConcurrencyEvent,
  most: number,
  now: number,
): Concurrency => {
  const { limit, loweredAt } = before;
  switch (event.type) {
    case "most":
      return limit > most || loweredAt === Number.NEGATIVE_INFINITY ? { ...before, limit: most } : before;
    case "pushback":
      return event.startedAt < loweredAt ? before : lowered(limit * shrink, now); // C2
    case "answered": {
      const { running, times, startedAt } = event;
      const pressed = times.samples >= enoughSamples && times.medianMs > slower * times.calmMs; // C4
      if (pressed && limit > easeAbove && running > limit / 2 && startedAt >= loweredAt)
        return lowered(limit * ease, now);
      // Calls that are made again get half of it at most, and have to be able to bring it back.
      if (running < Math.floor(limit / 2)) return before; // C3
      return { ...before, limit: Math.min(most, limit + 1 / limit) };
    }
  }
};

export const callsAtOnce = ({ limit }: Concurrency): number => Math.max(1, Math.floor(limit)); // C1
