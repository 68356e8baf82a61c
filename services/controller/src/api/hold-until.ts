import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";
import type { CallContext } from "@holdfast/shared/grpc/call-context";

/** Tells of changes, by key; the woken read again. */
export interface Wakeups {
  version(): number;
  wait(keys: readonly string[], since: number, signal: AbortSignal): Promise<void>;
}

/** "At most 10 minutes", says the API. */
const longestMs = 600_000;

export interface HoldOptions<T> {
  readonly wakeups: Wakeups;
  readonly clock: Clock;
  readonly context: Pick<CallContext, "signal" | "remainingMs">;
  readonly waitMs: number;
  /** Of the changes after it; taken before the first value was read. */
  readonly since: number;
  readonly first: T;
  readonly keys: readonly string[];
  readonly settled: (value: T) => boolean;
  readonly read: () => Promise<T>;
}

/**
 * Holds an answer until it has settled or the time is up, and answers how it stands then. A caller that goes away ends the wait and
 * nothing else. The answer leaves a little before the caller's own deadline, so that it is an answer and no error.
 */
export const holdUntil = async <T>(options: HoldOptions<T>): Promise<T> => {
  const { wakeups, clock, context, keys, settled, read } = options;
  let value = options.first;
  let since = options.since;
  if (settled(value) || options.waitMs <= 0) return value;
  const left = context.remainingMs();
  const ms = Math.min(options.waitMs, longestMs, left - Math.min(250, left / 10));
  const until = linkSignals(context.signal);
  const cancel = clock.timer(Math.max(0, ms), () => until.abort(new DOMException("the wait is over", "TimeoutError")));
  try {
    for (;;) {
      await wakeups.wait(keys, since, until.signal);
      since = wakeups.version();
      value = await read();
      if (settled(value)) return value;
    }
  } catch (error) {
    if (context.signal.aborted || !until.signal.aborted) throw error;
    return value;
  } finally {
    cancel();
    until.dispose();
  }
};
