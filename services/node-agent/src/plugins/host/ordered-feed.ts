/**
 * Events in one order for any number of readers. There is one bounded log; each reader has its own place in it, so that a
 * slow one holds nobody up.
 *
 * F1 A reader sees every event after its place once and in order, or is told that it fell behind; it never skips.
 * F2 Publishing never waits.
 */
import { createNotifier } from "@holdfast/shared/async/notifier";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";

export interface OrderedFeed<T> {
  publish(item: T): void;
  /** Where a reader begins that has just read the state that the events are about. */
  position(): number;
  /** Throws EVENTS_TRIMMED for a place that is no longer, or not yet, in the log. */
  check(since: number): void;
  /** Ends after the last event once `end` was called; rejects when aborted. */
  after(since: number, signal: AbortSignal): AsyncGenerator<{ readonly position: number; readonly item: T }, void>;
  end(): void;
  readers(): number;
}

export function createOrderedFeed<T>(capacity = 1_000): OrderedFeed<T> {
  const log: T[] = [];
  const changes = createNotifier();
  let position = 0;
  let ended = false;
  let readers = 0;

  const check = (since: number): void => {
    const oldest = position - log.length;
    if (since >= oldest && since <= position) return;
    const message = "the events after this place are not kept any more: begin again without a resume token";
    throw new HoldfastError({ kind: "out_of_range", reason: "EVENTS_TRIMMED", message });
  };

  return {
    publish(item) {
      log.push(item);
      position += 1;
      if (log.length > capacity) log.shift();
      changes.notify(); // F2
    },
    position: () => position,
    check,
    async *after(since, signal) {
      let at = since;
      readers += 1;
      try {
        for (;;) {
          const version = changes.version();
          check(at); // F1
          while (at < position) {
            check(at);
            const item = log[at - (position - log.length)] as T;
            at += 1;
            yield { position: at, item };
          }
          if (ended) return;
          await changes.wait(version, signal);
        }
      } finally {
        readers -= 1;
      }
    },
    end() {
      ended = true;
      changes.notify();
    },
    readers: () => readers,
  };
}
