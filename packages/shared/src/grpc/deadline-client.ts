/**
 * Every call has a deadline. It is set once, over all attempts; each attempt tells the server what is left of it (`grpc-timeout`,
 * which nice-grpc's own middleware does not send), and the call ends here too when it passes.
 */
import { type ClientMiddleware, Metadata } from "nice-grpc-common";
import { linkSignals } from "../async/signals.ts";
import { HoldfastError } from "../errors/holdfast-error.ts";
import { endedBySignal } from "./error-middleware.ts";

/** The protocol has eight digits for it; a day is longer than anything here may take. */
export const maxDeadlineMs = 24 * 60 * 60 * 1000;

export interface DeadlineCallOptions {
  /** Milliseconds from now, over all attempts. Streams have none unless given. */
  deadlineMs?: number;
}

interface DeadlineAt {
  /** Set by the outer middleware for the inner one. */
  deadlineAt?: number;
}

/** Outermost: fixes the moment, and aborts the call locally when it comes. */
export function deadlineClientMiddleware(defaultDeadlineMs: number): ClientMiddleware<DeadlineCallOptions, DeadlineAt> {
  return async function* withDeadline(call, { deadlineMs, ...options }) {
    const streaming = call.requestStream || call.responseStream;
    const ms = deadlineMs ?? (streaming ? undefined : defaultDeadlineMs);
    if (ms === undefined || ms === Number.POSITIVE_INFINITY) return yield* call.next(call.request, options);
    const bounded = Math.min(Math.max(0, ms), maxDeadlineMs);
    const linked = linkSignals(options.signal);
    const timer = setTimeout(() => linked.abort(deadlinePassed(call.method.path, bounded)), bounded);
    try {
      return yield* call.next(call.request, {
        ...options,
        signal: linked.signal,
        deadlineAt: performance.now() + bounded,
      });
    } catch (error) {
      throw endedBySignal(error, linked.signal);
    } finally {
      clearTimeout(timer);
      linked.dispose();
    }
  };
}

/** Innermost: one attempt's share of the time on the wire. */
export const timeoutHeaderMiddleware: ClientMiddleware<DeadlineAt> = async function* sendTimeout(call, options) {
  const { deadlineAt, ...rest } = options;
  if (deadlineAt === undefined) return yield* call.next(call.request, rest);
  const left = Math.min(Math.max(1, Math.ceil(deadlineAt - performance.now())), maxDeadlineMs);
  return yield* call.next(call.request, { ...rest, metadata: Metadata(rest.metadata).set("grpc-timeout", `${left}m`) });
};

function deadlinePassed(path: string, ms: number): HoldfastError {
  return new HoldfastError({
    kind: "deadline",
    reason: "DEADLINE",
    message: `${path}: no answer within ${ms} ms; the work may still be going on`,
    metadata: { method: path },
  });
}
