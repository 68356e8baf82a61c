/**
 * The one error that Holdfast throws on purpose. `kind` is the closed class that decides what a caller may do, `reason` the
 * stable UPPER_SNAKE word that people and programs match on, `message` what a person reads: what happened, to what, what next.
 */
export const errorKinds = [
  "invalid",
  "not_found",
  "already_exists",
  "precondition",
  "aborted",
  "exhausted",
  "out_of_range",
  "unavailable",
  "deadline",
  "cancelled",
  "unimplemented",
  "permission",
  "unauthenticated",
  "internal",
  "data_loss",
  "unknown",
] as const;

export type ErrorKind = (typeof errorKinds)[number];

export interface FieldViolation {
  /** Path of the field in the request, e.g. `volumes[0].capacity.required_bytes`. */
  readonly field: string;
  readonly description: string;
}

export interface HoldfastErrorInit {
  readonly kind: ErrorKind;
  readonly reason: string;
  readonly message: string;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly violations?: readonly FieldViolation[] | undefined;
  readonly cause?: unknown;
}

export class HoldfastError extends Error {
  readonly kind: ErrorKind;
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly FieldViolation[];

  constructor(init: HoldfastErrorInit) {
    super(init.message, init.cause === undefined ? undefined : { cause: init.cause });
    this.name = "HoldfastError";
    this.kind = init.kind;
    this.reason = init.reason;
    this.metadata = init.metadata ?? {};
    this.violations = init.violations ?? [];
  }
}

export function isHoldfastError(error: unknown): error is HoldfastError {
  return error instanceof HoldfastError;
}

/** Bad input, with every violation at once. The message repeats them, for callers that read no details. */
export function invalidArgument(violations: readonly FieldViolation[], message?: string): HoldfastError {
  const listed = violations.map((violation) => `${violation.field}: ${violation.description}`).join("; ");
  return new HoldfastError({
    kind: "invalid",
    reason: "INVALID_ARGUMENT",
    message: message ?? (listed === "" ? "the request is not valid" : listed),
    violations,
  });
}
