import type { Clock } from "@holdfast/shared/async/clock";

/** Looks at records again after a while, each once however often it was asked for. */
export const createWakeLater = (clock: Clock, wake: (key: string) => void) => {
  const timers = new Map<string, () => void>();
  return {
    after(ms: number, key: string): void {
      if (timers.has(key)) return;
      const cancel = clock.timer(ms, () => {
        timers.delete(key);
        wake(key);
      });
      timers.set(key, cancel);
    },
    stop(): void {
      for (const cancel of timers.values()) cancel();
      timers.clear();
    },
  };
};
