/**
 * A wake-up that cannot be missed: whoever read the state at version v waits for v to be passed, so that a change between
 * the read and the wait wakes at once. It carries no data; the woken read again.
 */
import { onAbort, reasonOf } from "./signals.ts";

export interface Notifier {
  version(): number;
  notify(): void;
  /** Resolves with the new version as soon as it is above `since`; rejects when aborted. */
  wait(since: number, signal: AbortSignal | undefined): Promise<number>;
  waiting(): number;
}

export function createNotifier(): Notifier {
  let version = 0;
  const waiters = new Set<() => void>();
  return {
    version: () => version,
    notify() {
      version += 1;
      const woken = [...waiters];
      waiters.clear();
      for (const wake of woken) wake();
    },
    wait(since, signal) {
      return new Promise((resolve, reject) => {
        if (signal?.aborted) {
          reject(reasonOf(signal));
          return;
        }
        if (version > since) {
          resolve(version);
          return;
        }
        const giveUp = (given: AbortSignal): void => {
          waiters.delete(wake);
          reject(reasonOf(given));
        };
        const leave = signal && onAbort(signal, () => giveUp(signal));
        const wake = (): void => {
          leave?.();
          resolve(version);
        };
        waiters.add(wake);
      });
    },
    waiting: () => waiters.size,
  };
}
