/** The gRPC codes by which CSI lets a plugin refuse. */
export type CsiCode =
  | "INVALID_ARGUMENT"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "FAILED_PRECONDITION"
  | "OUT_OF_RANGE"
  | "RESOURCE_EXHAUSTED"
  | "ABORTED"
  | "DEADLINE_EXCEEDED"
  | "CANCELLED"
  | "UNIMPLEMENTED"
  | "UNAVAILABLE"
  | "INTERNAL";

/** A refusal as the caller shall read it: what was found, on which volume, and what to do about it. */
export class DriverError extends Error {
  readonly code: CsiCode;

  constructor(code: CsiCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "DriverError";
    this.code = code;
  }
}
