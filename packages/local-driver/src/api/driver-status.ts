import { isAbort, reasonOf } from "@holdfast/shared/async/signals";
import { type ErrorKind, HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { CallMiddleware } from "@holdfast/shared/grpc/server";
import { type CsiCode, DriverError } from "../domain/driver-error.ts";

const kindOf: Readonly<Record<CsiCode, ErrorKind>> = {
  INVALID_ARGUMENT: "invalid",
  NOT_FOUND: "not_found",
  ALREADY_EXISTS: "already_exists",
  FAILED_PRECONDITION: "precondition",
  OUT_OF_RANGE: "out_of_range",
  RESOURCE_EXHAUSTED: "exhausted",
  ABORTED: "aborted",
  DEADLINE_EXCEEDED: "deadline",
  CANCELLED: "cancelled",
  UNIMPLEMENTED: "unimplemented",
  UNAVAILABLE: "unavailable",
  INTERNAL: "internal",
};

const endings: ReadonlySet<CsiCode> = new Set(["CANCELLED", "DEADLINE_EXCEEDED"]);

/** What the kernel says of a disk that is full, whoever met it. */
const noRoom: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT"]);

const systemCode = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string" && /^E[A-Z0-9]+$/.test(error.code)
    ? error.code
    : undefined;

/**
 * Every refusal leaves with its code and its whole message, a failed system call with what the kernel said, an abort as what caused it:
 * the deadline, the caller, or the end of this process. What nobody threw on purpose stays as it is, and says nothing of its inside.
 */
export const toStatusError = (error: unknown, signal: AbortSignal): unknown => {
  if (isHoldfastError(error)) return error;
  if (error instanceof DriverError) {
    const { code, message } = error;
    // What was given up by a signal was so for the signal's reason: this process may be ending.
    const cause: unknown = endings.has(code) && signal.aborted ? signal.reason : error;
    return isHoldfastError(cause)
      ? new HoldfastError({ kind: cause.kind, reason: cause.reason, message, cause: error })
      : new HoldfastError({ kind: kindOf[code], reason: code, message, cause: error });
  }
  if (signal.aborted && isAbort(error)) return reasonOf(signal);
  const code = systemCode(error);
  if (code === undefined || !(error instanceof Error)) return error;
  return noRoom.has(code)
    ? new HoldfastError({
        kind: "exhausted",
        reason: "RESOURCE_EXHAUSTED",
        message: `there is no room left: ${error.message}; free some on the filesystem of the state directory and ask again`,
        cause: error,
      })
    : new HoldfastError({ kind: "internal", reason: code, message: error.message, cause: error });
};

export const driverStatusMiddleware: CallMiddleware = async function* driverStatus(call, context) {
  try {
    return yield* call.next(call.request, context);
  } catch (error) {
    throw toStatusError(error, context.signal);
  }
};
