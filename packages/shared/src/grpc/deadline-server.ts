/**
 * The caller's deadline, on the server. nice-grpc does not pass it on: the interceptor copies it into the metadata, and a stage takes it
 * out again, puts it into the context and aborts the handler's signal when it passes. A stream ends with its caller's certificate too.
 */
import { alarm } from "../async/alarm.ts";
import { systemClock } from "../async/clock.ts";
import { onAbort } from "../async/signals.ts";
import { HoldfastError } from "../errors/holdfast-error.ts";
import type { CallStage } from "./call-stage.ts";
import { deadlineHeader } from "./caller-interceptor.ts";
import { maxDeadlineMs } from "./deadline-client.ts";
import type { CallerCertificate } from "./identity.ts";

export const requestIdHeader = "x-request-id";
const requestIdPattern = /^[\x21-\x7e]{1,128}$/;

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

export function deadlineStage({ stopping, defaultDeadlineMs, createRequestId }: DeadlineOptions): CallStage {
  return (method, context) => {
    const streaming = method.requestStream || method.responseStream;
    const sent = context.metadata.get(deadlineHeader);
    const deadline = sent !== undefined ? Number(sent) : streaming ? undefined : Date.now() + defaultDeadlineMs;
    const asked = context.metadata.get(requestIdHeader);

    const call = new AbortController();
    const { signal: callerSignal } = context;
    const onCallerAbort = () => call.abort(endedByCaller(deadline));
    // Never taken off again: it is the call's own signal, and is not aborted any more once the call is over.
    if (callerSignal.aborted) onCallerAbort();
    else callerSignal.addEventListener("abort", onCallerAbort, { once: true });
    const timer =
      deadline === undefined
        ? undefined
        : setTimeout(() => call.abort(deadlinePassed()), Math.min(Math.max(0, deadline - Date.now()), maxDeadlineMs));
    Object.assign(context, {
      signal: call.signal,
      ...(deadline === undefined ? undefined : { deadline }),
      remainingMs: () => (deadline === undefined ? Number.POSITIVE_INFINITY : Math.max(0, deadline - Date.now())),
      requestId: asked !== undefined && requestIdPattern.test(asked) ? asked : createRequestId(),
    });
    const { certificate } = context.identity;
    const forgetEnd =
      streaming && certificate !== undefined
        ? alarm(systemClock, certificate.notAfter, () => call.abort(certificateEnded(certificate)))
        : () => undefined;
    const stop = streaming ? stopping.streams : stopping.unary;
    if (stop.aborted) call.abort(stop.reason);
    const leave = stop.aborted ? () => undefined : onAbort(stop, () => call.abort(stop.reason));
    return () => {
      clearTimeout(timer);
      forgetEnd();
      leave();
    };
  };
}

/** The caller's clock began to run earlier than ours, by the time the call was under way. */
const underwayMs = 50;

/** The caller cancels both when it gives up and when its deadline passes; only the time tells them apart. */
function endedByCaller(deadline: number | undefined): HoldfastError {
  if (deadline !== undefined && Date.now() >= deadline - underwayMs) return deadlinePassed();
  return new HoldfastError({ kind: "cancelled", reason: "CANCELLED", message: "the caller cancelled the call" });
}

function certificateEnded({ notAfter }: CallerCertificate): HoldfastError {
  return new HoldfastError({
    kind: "unauthenticated",
    reason: "CERTIFICATE_REFUSED",
    message: `the certificate of the caller ended at ${new Date(notAfter).toISOString()}: open the stream again with a new one`,
  });
}

function deadlinePassed(): HoldfastError {
  return new HoldfastError({
    kind: "deadline",
    reason: "DEADLINE",
    message: "the caller's deadline passed; the work may still be going on",
  });
}
