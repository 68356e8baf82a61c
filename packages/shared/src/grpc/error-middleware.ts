/** The edge where errors change their form; the only place that does it. Outermost on both sides. */
import {
  ClientError,
  type ClientMiddleware,
  composeServerMiddleware,
  type ServerMiddleware,
  Status,
} from "nice-grpc-common";
import { errorDetailsServerMiddleware } from "nice-grpc-error-details";
import { isAbort, reasonOf } from "../async/signals.ts";
import { fromClientError, toServerError } from "../errors/grpc-status.ts";

const thrownToStatus: ServerMiddleware = async function* thrownToStatus(call, context) {
  try {
    return yield* call.next(call.request, context);
  } catch (error) {
    throw toServerError(error);
  }
};

/** Whatever a handler or a middleware throws leaves as a status with its details. */
export const errorServerMiddleware = composeServerMiddleware(errorDetailsServerMiddleware, thrownToStatus);

/** Every failure of a client call is a HoldfastError; a call given up by its signal fails with the signal's own reason. */
export const errorClientMiddleware: ClientMiddleware = async function* statusToErrors(call, options) {
  try {
    return yield* call.next(call.request, options);
  } catch (error) {
    throw fromClientError(endedBySignal(error, options.signal));
  }
};

/** What ended the call: the signal's reason when the error only says that something did. */
export function endedBySignal(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal === undefined || !signal.aborted) return error;
  const cancelled = isAbort(error) || (error instanceof ClientError && error.code === Status.CANCELLED);
  return cancelled ? reasonOf(signal) : error;
}
