/**
 * The end of a controller's work: nothing is begun any more, and calls that are under way are brought to their end, so that another
 * controller need not wait for them, nor leave a bar.
 */
import type { Clock } from "@holdfast/shared/async/clock";

/** Longer calls are left to the next life, or to another controller. */
export const endOfCallsMs = 5_000;

export const createOrderlyStop = (work: AbortController, clock: Pick<Clock, "sleep">) => {
  const taking = new AbortController();
  return {
    /** Aborted with the beginning of the end. */
    taking: taking.signal,
    async stop(...idle: readonly (() => Promise<unknown>)[]): Promise<void> {
      const why = new DOMException("the controller is stopping", "AbortError");
      taking.abort(why);
      const tooLong = clock.sleep(endOfCallsMs, work.signal).catch(() => undefined);
      await Promise.race([Promise.all(idle.map((ended) => ended())), tooLong]);
      work.abort(why);
    },
  };
};
