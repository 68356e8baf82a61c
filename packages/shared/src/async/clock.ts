/** Time as a port, so that tests own it. Durations come from `monotonic`; the wall clock is for display and records only. */
import { onAbort, reasonOf } from "./signals.ts";

export interface Clock {
  /** Wall clock, in milliseconds since 1970. */
  now(): number;
  /** Milliseconds since some fixed moment; never goes back. */
  monotonic(): number;
  /** Rejects with the signal's reason when aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Calls `fn` once after `ms`; the returned function takes it back. Does not keep the process alive. */
  timer(ms: number, fn: () => void): () => void;
}

/** Timers above 2^31 - 1 ms fire at once in Node; nothing here waits that long in one go. */
const maxTimerMs = 2 ** 31 - 1;

/** Keeps the process alive, as somebody waits for it; a timer alone does not. */
const waitedFor: Pick<Clock, "timer"> = {
  timer: (ms, fn) => {
    const handle = setTimeout(fn, Math.min(Math.max(0, ms), maxTimerMs));
    return () => clearTimeout(handle);
  },
};

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) => sleepOn(waitedFor, ms, signal),
  timer: (ms, fn) => {
    const handle = setTimeout(fn, Math.min(Math.max(0, ms), maxTimerMs));
    handle.unref();
    return () => clearTimeout(handle);
  },
};

/** `sleep` made of `timer`, for every clock the same. */
export function sleepOn(clock: Pick<Clock, "timer">, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(reasonOf(signal));
      return;
    }
    const leave = onAbort(signal, () => {
      cancel();
      reject(reasonOf(signal));
    });
    const cancel = clock.timer(ms, () => {
      leave();
      resolve();
    });
  });
}
