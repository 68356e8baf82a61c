/**
 * The latest changes of what this process knows by heart, in order: who was away for a while is told of exactly what changed meanwhile.
 *
 * M1 A change after `version()` was taken is in `since` that version, or `since` says that it no longer knows. M2 Memory is bounded.
 */
import { createNotifier } from "@holdfast/shared/async/notifier";

export interface Noted {
  readonly at: number;
  readonly key: string;
}

export interface MemoryLog {
  /** Names this life of the process: positions of another mean nothing here. */
  readonly life: string;
  note(key: string): void;
  version(): number;
  /** The last change of each key behind the version, in order; undefined: no longer known. */
  since(version: number): readonly Noted[] | undefined;
  /** Until there is something behind the version; rejects when aborted. */
  wait(version: number, signal: AbortSignal): Promise<void>;
}

const defaultRemembered = 10_000;

export const createMemoryLog = (life: string, remembered = defaultRemembered): MemoryLog => {
  /** Each its place: the change `n` stands at `n - 1 - forgotten`. */
  const keys: string[] = [];
  const wake = createNotifier();
  let forgotten = 0;

  return {
    life,
    note(key) {
      keys.push(key);
      if (keys.length > 2 * remembered) {
        keys.splice(0, remembered); // M2
        forgotten += remembered;
      }
      wake.notify();
    },
    version: wake.version,
    since(from) {
      if (from < forgotten || from > wake.version()) return undefined; // M1
      const last = new Map<string, number>();
      for (let n = from - forgotten; n < keys.length; n += 1) {
        const key = keys[n] ?? "";
        last.delete(key);
        last.set(key, forgotten + n + 1);
      }
      return [...last].map(([key, at]) => ({ at, key }));
    },
    async wait(from, signal) {
      await wake.wait(from, signal);
    },
  };
};
