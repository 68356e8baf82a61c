/**
 * The caller's deadline, on the server. nice-grpc does not pass it on: an interceptor of grpc-js, where it is known, copies it into
 * the metadata, and a middleware takes it out again, puts it into the context and aborts the handler's signal when it passes.
 */
import { ServerInterceptingCall, type ServerInterceptor } from "@grpc/grpc-js";
import type { ServerMiddleware } from "nice-grpc-common";
import { linkSignals } from "../async/signals.ts";
import { HoldfastError } from "../errors/holdfast-error.ts";
import type { CallExtension } from "./call-context.ts";
import { maxDeadlineMs } from "./deadline-client.ts";
import type { IdentityContext } from "./identity.ts";

const header = "x-holdfast-deadline";
const requestIdHeader = "x-request-id";
const requestIdPattern = /^[\x21-\x7e]{1,128}$/;

export const deadlineInterceptor: ServerInterceptor = (_method, call) =>
  new ServerInterceptingCall(call, {
    start: (next) =>
      next({
        onReceiveMetadata: (metadata, pass) => {
          // Whatever a caller wrote under this name itself is not a deadline.
          metadata.remove(header);
          const deadline = Number(call.getDeadline());
          if (Number.isFinite(deadline)) metadata.set(header, String(deadline));
          pass(metadata);
        },
      }),
  });

export interface StopSignals {
  /** Aborted first: streams have no end of their own. */
  readonly streams: AbortSignal;
  /** Aborted when the grace for running calls is over. */
  readonly unary: AbortSignal;
}

export interface DeadlineOptions {
  readonly stopping: StopSignals;
  /** For callers that sent none: a unary call without a deadline is a leak waiting to happen. */
  readonly defaultDeadlineMs: number;
  readonly createRequestId: () => string;
}

export function deadlineServerMiddleware(options: DeadlineOptions): ServerMiddleware<CallExtension, IdentityContext> {
  return async function* withDeadline(call, context) {
    const streaming = call.requestStream || call.responseStream;
    const sent = context.metadata.get(header);
    const deadline = sent !== undefined ? Number(sent) : streaming ? undefined : Date.now() + options.defaultDeadlineMs;
    const asked = context.metadata.get(requestIdHeader);
    const requestId = asked !== undefined && requestIdPattern.test(asked) ? asked : options.createRequestId();

    const linked = linkSignals(streaming ? options.stopping.streams : options.stopping.unary);
    const { signal: callerSignal } = context;
    const onCallerAbort = () => linked.abort(endedByCaller(deadline));
    if (callerSignal.aborted) onCallerAbort();
    callerSignal.addEventListener("abort", onCallerAbort, { once: true });
    const timer =
      deadline === undefined
        ? undefined
        : setTimeout(() => linked.abort(deadlinePassed()), Math.min(Math.max(0, deadline - Date.now()), maxDeadlineMs));
    try {
      const extended = Object.assign(context, {
        signal: linked.signal,
        ...(deadline === undefined ? {} : { deadline }),
        remainingMs: () => (deadline === undefined ? Number.POSITIVE_INFINITY : Math.max(0, deadline - Date.now())),
        requestId,
      });
      return yield* call.next(call.request, extended);
    } finally {
      clearTimeout(timer);
      callerSignal.removeEventListener("abort", onCallerAbort);
      linked.dispose();
    }
  };
}

/** The caller's clock began to run earlier than ours, by the time the call was under way. */
const underwayMs = 50;

/** The caller cancels both when it gives up and when its deadline passes; only the time tells them apart. */
function endedByCaller(deadline: number | undefined): HoldfastError {
  if (deadline !== undefined && Date.now() >= deadline - underwayMs) return deadlinePassed();
  return new HoldfastError({ kind: "cancelled", reason: "CANCELLED", message: "the caller cancelled the call" });
}

function deadlinePassed(): HoldfastError {
  return new HoldfastError({
    kind: "deadline",
    reason: "DEADLINE",
    message: "the caller's deadline passed; the work may still be going on",
  });
}
