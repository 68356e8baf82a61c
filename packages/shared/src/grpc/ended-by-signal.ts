import { ClientError, Status } from "nice-grpc-common";
import { isAbort, reasonOf } from "../async/signals.ts";

/** What ended the call: the signal's reason when the error only says that something did. */
export function endedBySignal(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal === undefined || !signal.aborted) return error;
  const cancelled = isAbort(error) || (error instanceof ClientError && error.code === Status.CANCELLED);
  return cancelled ? reasonOf(signal) : error;
}
