/**
 * Every call has a deadline. It is set once, over all attempts; each attempt tells the server what is left of it (`grpc-timeout`,
 * which nice-grpc's own middleware does not send), and the call ends here too when it passes.
 */
import { linkSignals } from "../async/signals.ts";
import { HoldfastError } from "../errors/holdfast-error.ts";

/** The protocol has eight digits for it; a day is longer than anything here may take. */
export const maxDeadlineMs = 24 * 60 * 60 * 1000;

export interface ClientDeadline {
  /** Aborted by the caller's own, and when the time is up. */
  readonly signal: AbortSignal;
  /** On the monotonic clock. */
  readonly at: number;
  /** The call is over: lets go of the timer and of the caller's signal. */
  end(): void;
}

/** Undefined for a call that may last for ever: a stream that was given none. */
export function beginDeadline(
  path: string,
  ms: number | undefined,
  caller: AbortSignal | undefined,
): ClientDeadline | undefined {
  if (ms === undefined || ms === Number.POSITIVE_INFINITY) return undefined;
  const bounded = Math.min(Math.max(0, ms), maxDeadlineMs);
  const linked = linkSignals(caller);
  const timer = setTimeout(() => linked.abort(deadlinePassed(path, bounded)), bounded);
  return {
    signal: linked.signal,
    at: performance.now() + bounded,
    end() {
      clearTimeout(timer);
      linked.dispose();
    },
  };
}

/** One attempt's share of the time, for the wire. */
export function timeoutHeader(deadlineAt: number): string {
  return `${Math.min(Math.max(1, Math.ceil(deadlineAt - performance.now())), maxDeadlineMs)}m`;
}

function deadlinePassed(path: string, ms: number): HoldfastError {
  return new HoldfastError({
    kind: "deadline",
    reason: "DEADLINE",
    message: `${path}: no answer within ${ms} ms; the work may still be going on`,
    metadata: { method: path },
  });
}
