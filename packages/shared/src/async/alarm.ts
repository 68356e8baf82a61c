import type { Clock } from "./clock.ts";

/** A timer of Node ends after 24 days, and none notices that the wall clock was set or that the host slept. */
const longestMs = 60_000;

/** Calls `fn` once when the wall clock says `at`, however far away; the returned function takes it back. */
export function alarm(clock: Pick<Clock, "now" | "timer">, at: number, fn: () => void): () => void {
  let cancel: () => void = () => undefined;
  const wait = (): void => {
    const left = at - clock.now();
    if (left <= 0) fn();
    else cancel = clock.timer(Math.min(left, longestMs), wait);
  };
  cancel = clock.timer(0, wait);
  return () => cancel();
}
