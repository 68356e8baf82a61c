/** A clock that stands still until a test moves it. Timers fire in the order of their due times. */
import { type Clock, sleepOn } from "./clock.ts";

export interface ManualClock extends Clock {
  /** Moves time on and fires what falls due, letting promises settle after each timer. */
  advance(ms: number): Promise<void>;
  /** Steps the wall clock alone, as an operator or NTP would. */
  setWall(ms: number): void;
  /** Timers that wait; a test that ends with some has a leak. */
  pending(): number;
}

interface Timer {
  readonly due: number;
  readonly order: number;
  readonly fn: () => void;
}

export function createManualClock(init: { readonly now?: number; readonly monotonic?: number } = {}): ManualClock {
  let wallOffset = (init.now ?? 1_700_000_000_000) - (init.monotonic ?? 0);
  let elapsed = init.monotonic ?? 0;
  let order = 0;
  const timers = new Set<Timer>();

  const nextDue = (limit: number): Timer | undefined => {
    let next: Timer | undefined;
    for (const timer of timers) {
      if (timer.due > limit) continue;
      if (next === undefined || timer.due < next.due || (timer.due === next.due && timer.order < next.order))
        next = timer;
    }
    return next;
  };

  const clock: ManualClock = {
    now: () => wallOffset + elapsed,
    monotonic: () => elapsed,
    sleep: (ms, signal) => sleepOn(clock, ms, signal),
    timer: (ms, fn) => {
      const timer: Timer = { due: elapsed + Math.max(0, ms), order, fn };
      order += 1;
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async advance(ms) {
      const end = elapsed + ms;
      await settle();
      for (let next = nextDue(end); next !== undefined; next = nextDue(end)) {
        timers.delete(next);
        elapsed = Math.max(elapsed, next.due);
        next.fn();
        await settle();
      }
      elapsed = end;
    },
    setWall: (ms) => {
      wallOffset = ms - elapsed;
    },
    pending: () => timers.size,
  };
  return clock;
}

/** One turn of the event loop: every promise chain that needs no I/O has run by then. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
