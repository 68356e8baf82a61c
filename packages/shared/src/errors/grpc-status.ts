/** HoldfastError ↔ gRPC status, both ways, here and nowhere else. Both tables are total: a new kind does not compile without. */
import { ClientError, ServerError, Status } from "nice-grpc-common";
import type { ErrorDetails } from "nice-grpc-error-details";
import { BadRequest, ErrorInfo, PreconditionFailure, RichClientError, RichServerError } from "nice-grpc-error-details";
import { type ErrorKind, HoldfastError, isHoldfastError } from "./holdfast-error.ts";
import { withoutStack } from "./without-stack.ts";

export const errorDomain = "holdfast";

/** A status message over about 64 KB hangs the call, and against a Go peer its whole connection; ours end long before. */
export const maxMessageBytes = 4096;
const maxDetailBytes = 3072;

export const statusOfKind: Readonly<Record<ErrorKind, Status>> = {
  invalid: Status.INVALID_ARGUMENT,
  not_found: Status.NOT_FOUND,
  already_exists: Status.ALREADY_EXISTS,
  precondition: Status.FAILED_PRECONDITION,
  aborted: Status.ABORTED,
  exhausted: Status.RESOURCE_EXHAUSTED,
  out_of_range: Status.OUT_OF_RANGE,
  unavailable: Status.UNAVAILABLE,
  deadline: Status.DEADLINE_EXCEEDED,
  cancelled: Status.CANCELLED,
  unimplemented: Status.UNIMPLEMENTED,
  permission: Status.PERMISSION_DENIED,
  unauthenticated: Status.UNAUTHENTICATED,
  internal: Status.INTERNAL,
  data_loss: Status.DATA_LOSS,
  unknown: Status.UNKNOWN,
};

/** OK is no error; an error that carries it is a broken peer's, of which nothing is known. */
export const kindOfStatus: Readonly<Record<Status, ErrorKind>> = {
  [Status.OK]: "unknown",
  [Status.CANCELLED]: "cancelled",
  [Status.UNKNOWN]: "unknown",
  [Status.INVALID_ARGUMENT]: "invalid",
  [Status.DEADLINE_EXCEEDED]: "deadline",
  [Status.NOT_FOUND]: "not_found",
  [Status.ALREADY_EXISTS]: "already_exists",
  [Status.PERMISSION_DENIED]: "permission",
  [Status.RESOURCE_EXHAUSTED]: "exhausted",
  [Status.FAILED_PRECONDITION]: "precondition",
  [Status.ABORTED]: "aborted",
  [Status.OUT_OF_RANGE]: "out_of_range",
  [Status.UNIMPLEMENTED]: "unimplemented",
  [Status.INTERNAL]: "internal",
  [Status.UNAVAILABLE]: "unavailable",
  [Status.DATA_LOSS]: "data_loss",
  [Status.UNAUTHENTICATED]: "unauthenticated",
};

/** Reasons for errors that arrive without an ErrorInfo of their own, such as those of plugins and of the transport. */
const reasonOfKind: Readonly<Record<ErrorKind, string>> = {
  invalid: "INVALID_ARGUMENT",
  not_found: "NOT_FOUND",
  already_exists: "ALREADY_EXISTS",
  precondition: "FAILED_PRECONDITION",
  aborted: "ABORTED",
  exhausted: "RESOURCE_EXHAUSTED",
  out_of_range: "OUT_OF_RANGE",
  unavailable: "UNAVAILABLE",
  deadline: "DEADLINE",
  cancelled: "CANCELLED",
  unimplemented: "NOT_IMPLEMENTED",
  permission: "PERMISSION_DENIED",
  unauthenticated: "UNAUTHENTICATED",
  internal: "INTERNAL",
  data_loss: "DATA_LOSS",
  unknown: "UNKNOWN",
};

/** What leaves a server. Errors that nobody threw on purpose become INTERNAL and say nothing of their inside. */
export const toServerError = (error: unknown): ServerError =>
  error instanceof ServerError ? error : withoutStack(() => richErrorOf(error));

function richErrorOf(error: unknown): RichServerError {
  const known = isHoldfastError(error) ? error : namedLikeAbort(error);
  if (known === undefined) {
    const detail = ErrorInfo.fromPartial({ reason: "INTERNAL", domain: errorDomain });
    return new RichServerError(Status.INTERNAL, "internal error; the server's log has the details", [detail]);
  }
  const message = cutToBytes(known.message, maxMessageBytes);
  return new RichServerError(statusOfKind[known.kind], message, detailsOf(known, message));
}

/** Details travel in one trailer, and some peers refuse headers above 8 KiB: what does not fit is left out, never cut wrong. */
function detailsOf(error: HoldfastError, message: string): ErrorDetails[] {
  let left = maxDetailBytes;
  const fits = (...parts: readonly string[]) => {
    left -= parts.reduce((sum, part) => sum + Buffer.byteLength(part) + 4, 0);
    return left >= 0;
  };
  const metadata: Record<string, string> = {};
  for (const [key, value] of Object.entries(error.metadata)) {
    const cut = cutToBytes(value, 512);
    if (fits(key, cut)) metadata[key] = cut;
  }
  const details: ErrorDetails[] = [ErrorInfo.fromPartial({ reason: error.reason, domain: errorDomain, metadata })];
  if (error.kind === "precondition") {
    const subject = error.metadata["subject"] ?? error.metadata["volume"] ?? error.metadata["node"] ?? "";
    const violation = { type: error.reason, subject: cutToBytes(subject, 256), description: cutToBytes(message, 512) };
    if (fits(violation.type, violation.subject, violation.description)) {
      details.push(PreconditionFailure.fromPartial({ violations: [violation] }));
    }
  }
  const fieldViolations = error.violations
    .map(({ field, description }) => ({ field: cutToBytes(field, 256), description: cutToBytes(description, 512) }))
    .filter(({ field, description }) => fits(field, description));
  if (fieldViolations.length > 0) details.push(BadRequest.fromPartial({ fieldViolations }));
  return details;
}

/** What a client call threw. Never throws, and leaves a HoldfastError as it is. */
export function fromClientError(error: unknown): HoldfastError {
  if (isHoldfastError(error)) return error;
  if (error instanceof ClientError) {
    const kind = kindOfStatus[error.code] ?? "unknown";
    const extra = error instanceof RichClientError ? error.extra : [];
    const info = extra.find((detail) => detail.$type === ErrorInfo.$type);
    const bad = extra.find((detail) => detail.$type === BadRequest.$type);
    return new HoldfastError({
      kind,
      reason: info === undefined || info.reason === "" ? reasonOfKind[kind] : info.reason,
      message: error.details === "" ? `${error.path}: ${Status[error.code] ?? error.code}` : error.details,
      metadata: info?.metadata,
      violations: bad?.fieldViolations.map(({ field, description }) => ({ field, description })),
      cause: error,
    });
  }
  return (
    namedLikeAbort(error) ??
    new HoldfastError({
      kind: "unknown",
      reason: "UNKNOWN",
      message: error instanceof Error ? error.message : String(error),
      cause: error,
    })
  );
}

/** The reason that a Holdfast server sent itself; undefined when a library or a proxy made the error, and the reason was only derived. */
export function reasonSent({ cause }: HoldfastError): string | undefined {
  const extra = cause instanceof RichClientError ? cause.extra : [];
  const info = extra.find((detail) => detail.$type === ErrorInfo.$type);
  return info?.domain === errorDomain ? info.reason : undefined;
}

/** The status that an error has or would have on the wire. */
export function statusOf(error: unknown): Status {
  if (isHoldfastError(error)) return statusOfKind[error.kind];
  if (error instanceof ServerError || error instanceof ClientError) return error.code;
  const abort = namedLikeAbort(error);
  return abort === undefined ? Status.INTERNAL : statusOfKind[abort.kind];
}

/** Aborts come as AbortError from many makers, those of AbortSignal.timeout as TimeoutError; only the name is common. */
function namedLikeAbort(error: unknown): HoldfastError | undefined {
  const name = typeof error === "object" && error !== null && "name" in error ? error.name : undefined;
  if (name === "TimeoutError") {
    return new HoldfastError({ kind: "deadline", reason: "DEADLINE", message: "the deadline passed", cause: error });
  }
  if (name !== "AbortError") return undefined;
  return new HoldfastError({ kind: "cancelled", reason: "CANCELLED", message: "the call was cancelled", cause: error });
}

/** At most `limit` bytes of UTF-8, never half a character, and with a sign that something is missing. */
export function cutToBytes(text: string, limit: number): string {
  // A UTF-16 unit takes at most three bytes, so that short texts need no encoding.
  if (text.length * 3 <= limit) return text;
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length <= limit) return text;
  let end = limit - 3;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return `${bytes.subarray(0, end).toString("utf8")}…`;
}
