/** A process that can be stopped and goes on later, like one that got SIGSTOP: whatever it waits for comes when it runs again. */
import { type Clock, sleepOn } from "@holdfast/shared/async/clock";

export interface Halting {
  /** The time of the process: what falls due while it is stopped falls due when it goes on. */
  readonly clock: Clock;
  readonly stopped: boolean;
  /** The answer to the process, which it gets while it runs. */
  through<T>(answer: Promise<T>): Promise<T>;
  stop(): void;
  goOn(): void;
}

export const createHalting = (time: Clock): Halting => {
  let stop: PromiseWithResolvers<void> | undefined;
  const due = new Set<() => void>();

  const clock: Clock = {
    now: time.now,
    monotonic: time.monotonic,
    sleep: (ms, signal) => sleepOn(clock, ms, signal),
    timer(ms, fn) {
      const cancel = time.timer(ms, () => void (stop === undefined ? fn() : due.add(fn)));
      return () => {
        cancel();
        due.delete(fn);
      };
    },
  };
  const running = async (): Promise<void> => {
    while (stop !== undefined) await stop.promise;
  };

  return {
    clock,
    get stopped() {
      return stop !== undefined;
    },
    async through(answer) {
      try {
        return await answer;
      } finally {
        if (stop !== undefined) await running();
      }
    },
    stop() {
      stop ??= Promise.withResolvers();
    },
    goOn() {
      const [before, fired] = [stop, [...due]];
      stop = undefined;
      due.clear();
      for (const fn of fired) fn();
      before?.resolve();
    },
  };
};
