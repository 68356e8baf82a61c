/** The gRPC codes by name: the record and the faults speak names, only the wire speaks numbers. */
export const codeNames = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

export type CodeName = (typeof codeNames)[number];

/** What a plugin answers instead of a response. */
export interface Refusal {
  readonly code: CodeName;
  readonly message: string;
}

/** Thrown inside the backend's effects; the backend turns it into the answer of the call. */
export class RefusedError extends Error {
  readonly code: CodeName;

  constructor(code: CodeName, message: string) {
    super(message);
    this.name = "RefusedError";
    this.code = code;
  }
}

export const refusalOf = (error: unknown): Refusal =>
  error instanceof RefusedError
    ? { code: error.code, message: error.message }
    : { code: "INTERNAL", message: error instanceof Error ? error.message : String(error) };
