/**
 * An amount per second for all callers together, in the order of asking.
 *
 * P1 A take waits until all that was taken before it has had its time. P2 A caller that gave up waits no more; its share is not given
 * to another caller.
 */
import type { Clock } from "./clock.ts";

export interface PaceOptions {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly perSecond: number;
}

export interface Pace {
  /** Rejects with the signal's reason; undefined: there is nothing to wait for. */
  take(amount: number, signal: AbortSignal): Promise<void> | undefined;
  waiting(): number;
}

export function createPace({ clock, perSecond }: PaceOptions): Pace {
  let free = 0;
  let waiting = 0;
  return {
    take(amount, signal) {
      const now = clock.monotonic();
      const turn = Math.max(now, free);
      free = turn + (amount * 1_000) / perSecond; // P1
      if (turn <= now) return undefined;
      waiting += 1;
      return clock.sleep(turn - now, signal).finally(() => {
        waiting -= 1;
      });
    },
    waiting: () => waiting,
  };
}
