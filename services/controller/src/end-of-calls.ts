/** The orderly end of a controller's calls: what is under way is brought to its end, so that no other controller has to wait for it. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { PluginDrivers } from "./reconcile/plugin/plugin-drivers.ts";

export interface EndOfCallsDeps {
  /** Aborted first: nothing new is taken up. */
  readonly taking: AbortController;
  /** Aborted when the calls have had their time. */
  readonly work: AbortController;
  readonly drivers: Pick<PluginDrivers, "leave" | "signOff">;
  readonly reconcilers: readonly { end(): Promise<void> }[];
  readonly clock: Pick<Clock, "sleep">;
}

/** Longer calls are left to the next life, or to another controller. */
const patienceMs = 5_000;

export const endOfCalls =
  ({ taking, work, drivers, reconcilers, clock }: EndOfCallsDeps) =>
  async (): Promise<void> => {
    const why = new DOMException("the controller is stopping", "AbortError");
    taking.abort(why);
    const ends = Promise.allSettled([drivers.leave(), ...reconcilers.map((each) => each.end())]);
    await Promise.race([ends, clock.sleep(patienceMs, work.signal)]);
    work.abort(why);
    await drivers.signOff();
  };
