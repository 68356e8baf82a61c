/** What goes wrong with a stream between an agent and a controller, as those are told who call over it. */
import { HoldfastError } from "../../errors/holdfast-error.ts";

/** The peer cannot have seen the call. */
export const notSent = (peer: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "NOT_SENT",
    message: `the call was not sent to ${peer}: ${why}; send it again on another stream`,
  });

/** The peer may have the call, and may be at it. */
export const streamEnded = (peer: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STREAM_ENDED",
    message: `the stream to ${peer} ended before it answered: ${why}; what became of the call is not known`,
  });

export const queueFull = (peer: string): HoldfastError =>
  new HoldfastError({
    kind: "exhausted",
    reason: "STREAM_FULL",
    message: `too much waits to be sent to ${peer}; send less at once, or again in a moment`,
  });

export const callsRefused = (open: number): HoldfastError =>
  new HoldfastError({
    kind: "exhausted",
    reason: "OVERLOADED",
    message: `${open} calls of this stream are under way, or their answers are not read; send fewer at once`,
  });

export const messageTooLarge = (what: string, maxBytes: number): HoldfastError =>
  new HoldfastError({
    kind: "exhausted",
    reason: "MESSAGE_TOO_LARGE",
    message: `${what} has more than the ${maxBytes} bytes that may be sent; ask for less at once`,
  });

export const frameMalformed = (peer: string, error: unknown): HoldfastError =>
  new HoldfastError({
    kind: "invalid",
    reason: "FRAME_MALFORMED",
    message: `a frame of ${peer} cannot be taken: ${error instanceof Error ? error.message : String(error)}; the stream has to end`,
    cause: error,
  });

export const bodyMalformed = (path: string, error: unknown): HoldfastError =>
  new HoldfastError({
    kind: "invalid",
    reason: "BODY_MALFORMED",
    message: `the request of ${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    cause: error,
  });

export const methodUnknown = (what: string): HoldfastError =>
  new HoldfastError({
    kind: "unimplemented",
    reason: "METHOD_UNKNOWN",
    message: `${what} is not served on this stream; the two sides may be of different versions`,
  });

/** A body that went by Transfer did not arrive whole. */
export const transferCut = (why: string): HoldfastError =>
  new HoldfastError({ kind: "unavailable", reason: "TRANSFER_CUT", message: `a body did not arrive whole: ${why}` });
