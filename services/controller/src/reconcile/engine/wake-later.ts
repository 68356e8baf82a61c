import type { Clock } from "@holdfast/shared/async/clock";

/** Looks at records again after a while, each once however often it was asked for: at the earliest time that was asked for. */
export const createWakeLater = (clock: Pick<Clock, "monotonic" | "timer">, wake: (key: string) => void) => {
  const timers = new Map<string, { readonly at: number; readonly cancel: () => void }>();
  return {
    after(ms: number, key: string): void {
      const at = clock.monotonic() + ms;
      const known = timers.get(key);
      if (known !== undefined && known.at <= at) return;
      known?.cancel();
      const cancel = clock.timer(ms, () => {
        timers.delete(key);
        wake(key);
      });
      timers.set(key, { at, cancel });
    },
    stop(): void {
      for (const { cancel } of timers.values()) cancel();
      timers.clear();
    },
  };
};
