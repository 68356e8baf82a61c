/** Does something in the lane of a volume, unless the lane is taken for too long: a call that hangs holds up nothing that can be put off. */
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";

export interface Lanes {
  alone<T>(publish: string, wait: AbortSignal, act: () => Promise<T>): Promise<T>;
}

export interface BusyLimits {
  readonly clock: Pick<Clock, "timer">;
  readonly signal: AbortSignal;
  readonly waitMs: number;
}

/** Undefined: it was not begun. */
export async function unlessBusy<T>(
  lanes: Lanes,
  publish: string,
  { clock, signal, waitMs }: BusyLimits,
  act: () => Promise<T>,
): Promise<T | undefined> {
  const wait = linkSignals(signal);
  const stopTimer = clock.timer(waitMs, () => wait.abort(new DOMException("the volume is busy", "TimeoutError")));
  try {
    return await lanes.alone(publish, wait.signal, () => {
      stopTimer();
      return act();
    });
  } catch (error) {
    if (signal.aborted || !wait.signal.aborted) throw error;
    return undefined;
  } finally {
    stopTimer();
    wait.dispose();
  }
}
