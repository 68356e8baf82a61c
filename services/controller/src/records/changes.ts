/** Who waits for what to change, within this process. It carries no data: the woken read again. */
import { onAbort, reasonOf } from "@holdfast/shared/async/signals";

export interface Changes {
  /** Take it before reading; a change between the read and the wait then ends the wait at once. */
  version(): number;
  /** Resolves as soon as one of the keys was published after `since`; may resolve without cause; rejects when aborted. */
  wait(keys: readonly string[], since: number, signal: AbortSignal): Promise<void>;
  publish(...keys: readonly string[]): void;
  /** Events were missed: everything may have changed. */
  publishAll(): void;
  waiting(): number;
}

/** Volumes are published under `volumeKey(ref)`, nodes under `nodeChangeKey(name)`. */
export const nodeChangeKey = (node: string): string => `node:${node}`;

const defaultRemembered = 10_000;

/**
 * C1 A change after `version()` was taken is never missed: what is no longer remembered counts as changed.
 * C2 Memory is bounded: at most `remembered` keys, and waiters only while they wait.
 */
export const createChanges = (remembered = defaultRemembered): Changes => {
  let version = 0;
  let forgotten = 0;
  const last = new Map<string, number>();
  const waiters = new Map<string, Set<() => void>>();

  const wake = (key: string): void => {
    for (const fn of [...(waiters.get(key) ?? [])]) fn();
  };

  const remember = (key: string): void => {
    last.delete(key);
    last.set(key, version);
    if (last.size <= remembered) return;
    const oldest = last.entries().next().value;
    if (oldest === undefined) return;
    last.delete(oldest[0]); // C2
    forgotten = oldest[1]; // C1
  };

  return {
    version: () => version,
    wait(keys, since, signal) {
      return new Promise((resolve, reject) => {
        if (signal.aborted) {
          reject(reasonOf(signal));
          return;
        }
        if (since < forgotten || keys.some((key) => (last.get(key) ?? 0) > since)) {
          resolve();
          return;
        }
        const leave = () => {
          stopListening();
          for (const key of keys) {
            const set = waiters.get(key);
            set?.delete(onWake);
            if (set?.size === 0) waiters.delete(key);
          }
        };
        const onWake = () => {
          leave();
          resolve();
        };
        const stopListening = onAbort(signal, () => {
          leave();
          reject(reasonOf(signal));
        });
        for (const key of keys) {
          const set = waiters.get(key);
          if (set === undefined) waiters.set(key, new Set([onWake]));
          else set.add(onWake);
        }
      });
    },
    publish(...keys) {
      version += 1;
      for (const key of keys) remember(key);
      for (const key of keys) wake(key);
    },
    publishAll() {
      version += 1;
      forgotten = version;
      last.clear();
      for (const key of [...waiters.keys()]) wake(key);
    },
    waiting: () => waiters.size,
  };
};
