import type { Clock } from "@holdfast/shared/async/clock";
import { waitFor } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import { isDamage } from "../../records/damaged-records.ts";

/** Records that want to be looked at when their time has come. */
export interface DueSource {
  due(limit: number): Promise<readonly string[]>;
  nextDue(): Promise<number | undefined>;
  reschedule(key: string): Promise<void>;
  onCommit(listener: (notice: { readonly due: number | undefined }) => void): () => void;
}

export interface DueLoopDeps {
  readonly records: DueSource;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly wake: (key: string) => void;
  /** The wall clock was set back: times that were stored before may be far away, so that everything has to be looked at. */
  readonly wakeAll: () => void;
}

const batch = 64;
/** Entries of other controllers, and steps of the wall clock, are seen at the latest after this long. */
const longestSleepMs = 30_000;
const pauseMs = 1_000;
const leastStepMs = 1_000;

/**
 * Wakes what is due: retries, deadlines, and whatever lost its wake-up. An entry is moved on before its record is
 * woken, so that one that only waits does not stay in front of the queue. Rejects when aborted.
 */
export const runDueLoop = async (deps: DueLoopDeps): Promise<never> => {
  const { records, clock, log, signal, wake, wakeAll } = deps;
  let target = Number.NEGATIVE_INFINITY;
  let rearm: ((at: number) => void) | undefined;
  /** The earliest time that was committed while the queue was being read, and may not be in what was read. */
  let noticed = Number.POSITIVE_INFINITY;

  const unsubscribe = records.onCommit(({ due }) => {
    if (due === undefined) return;
    noticed = Math.min(noticed, due);
    if (due < target) rearm?.(due);
  });

  const sleepUntil = async (at: number): Promise<void> => {
    let cancel: () => void = () => undefined;
    const over = new Promise<void>((resolve) => {
      rearm = (when) => {
        cancel();
        target = when;
        cancel = clock.timer(Math.max(0, when - clock.now()), resolve);
      };
      rearm(at);
    });
    try {
      await waitFor(over, signal);
    } finally {
      cancel();
      rearm = undefined;
    }
  };

  let ahead = clock.now() - clock.monotonic();
  const lookAtClock = (): void => {
    const before = ahead;
    ahead = clock.now() - clock.monotonic();
    if (before - ahead < leastStepMs) return;
    log.warn("the wall clock was set back; everything that waits is looked at again", { by_ms: before - ahead });
    wakeAll();
  };

  /** False: the record is damaged, and its entry stays where it is. */
  const fire = async (key: string): Promise<boolean> => {
    try {
      await records.reschedule(key);
    } catch (error) {
      if (!isDamage(error)) throw error;
      return false;
    } finally {
      wake(key);
    }
    return true;
  };

  try {
    for (;;) {
      signal.throwIfAborted();
      lookAtClock();
      let next: number | undefined;
      noticed = Number.POSITIVE_INFINITY;
      try {
        const keys = await records.due(batch);
        const moved = await Promise.all(keys.map(fire));
        next = keys.length === batch ? clock.now() : await records.nextDue();
        if (moved.includes(false)) next = Math.max(next ?? 0, clock.now() + pauseMs);
      } catch (error) {
        signal.throwIfAborted();
        log.warn("the due queue cannot be read now", { error });
        next = clock.now() + pauseMs;
      }
      await sleepUntil(Math.min(next ?? noticed, noticed, clock.now() + longestSleepMs));
    }
  } finally {
    unsubscribe();
  }
};
