import type { Clock } from "./clock.ts";
import { systemClock } from "./clock.ts";

export interface EveryOptions {
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  /** Share of the period, 0 to 1, by which each wait is shortened or lengthened at random. */
  readonly jitter?: number;
  readonly random?: () => number;
  /** Calls at once too, and not only after the first period. */
  readonly immediate?: boolean;
  /** With it the loop goes on after a failed tick, which is a report then; without it the failure ends the loop. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Calls `fn` again and again, `ms` after the last call has settled, so that calls never overlap.
 * Rejects with the signal's reason once aborted; never resolves.
 */
export async function every(ms: number, fn: () => Promise<void> | void, options: EveryOptions): Promise<never> {
  const { signal, clock = systemClock, jitter = 0, random = Math.random, immediate = false, onError } = options;
  const wait = () => ms * (1 + jitter * (2 * random() - 1));
  if (!immediate) await clock.sleep(wait(), signal);
  for (;;) {
    signal.throwIfAborted();
    try {
      await fn();
    } catch (error) {
      signal.throwIfAborted();
      if (onError === undefined) throw error;
      onError(error);
    }
    await clock.sleep(wait(), signal);
  }
}
