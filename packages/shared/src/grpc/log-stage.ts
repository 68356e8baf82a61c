/** One line a call: what, who, how long, how it ended. Never what was said: messages hold secrets. */
import { Status } from "nice-grpc-common";
import { statusOf } from "../errors/grpc-status.ts";
import { isHoldfastError } from "../errors/holdfast-error.ts";
import type { Logger, LogLevel } from "../log/logger.ts";
import type { CallStage } from "./call-stage.ts";
import { formatIdentity } from "./identity.ts";

export const shuttingDownReason = "SHUTTING_DOWN";

/**
 * How loud an end is: our own faults are errors, overload and absence of a peer warnings, a caller's mistakes information. A deadline
 * is information too: waits end with it every day.
 */
const levelOf: Readonly<Record<Status, LogLevel>> = {
  [Status.OK]: "debug",
  [Status.CANCELLED]: "debug",
  [Status.UNKNOWN]: "error",
  [Status.INVALID_ARGUMENT]: "info",
  [Status.DEADLINE_EXCEEDED]: "info",
  [Status.NOT_FOUND]: "info",
  [Status.ALREADY_EXISTS]: "info",
  [Status.PERMISSION_DENIED]: "warn",
  [Status.RESOURCE_EXHAUSTED]: "warn",
  [Status.FAILED_PRECONDITION]: "info",
  [Status.ABORTED]: "info",
  [Status.OUT_OF_RANGE]: "info",
  [Status.UNIMPLEMENTED]: "info",
  [Status.INTERNAL]: "error",
  [Status.UNAVAILABLE]: "warn",
  [Status.DATA_LOSS]: "error",
  [Status.UNAUTHENTICATED]: "warn",
};

export function logStage(log: Logger): CallStage {
  return ({ path }, context) => {
    const start = performance.now();
    return (failure) => {
      const code = failure === undefined ? Status.OK : statusOf(failure.error);
      const error = failure?.error;
      // Every stream ends like this when the server does.
      const expected = isHoldfastError(error) && error.reason === shuttingDownReason;
      const level = expected ? "debug" : (levelOf[code] ?? "error");
      if (!log.writes(level)) return;
      const fields = {
        method: path,
        code: Status[code] ?? String(code),
        ms: Math.round((performance.now() - start) * 100) / 100,
        caller: formatIdentity(context.identity),
        request_id: context.requestId,
      };
      if (failure === undefined) {
        log[level]("call", fields);
        return;
      }
      // Only faults that nobody threw on purpose need more than their reason.
      const told = isHoldfastError(error) ? { reason: error.reason, detail: error.message } : { error };
      log[level]("call failed", { ...fields, ...told });
    };
  };
}
