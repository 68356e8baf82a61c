import { type CsiCode, DriverError } from "../domain/driver-error.ts";

const codes: Readonly<Record<string, { readonly code: CsiCode; readonly cure: string }>> = {
  ENOSPC: { code: "RESOURCE_EXHAUSTED", cure: "delete volumes or snapshots, or enlarge the disk" },
  EDQUOT: { code: "RESOURCE_EXHAUSTED", cure: "raise the quota, or delete volumes or snapshots" },
  EFBIG: { code: "OUT_OF_RANGE", cure: "ask for less: the filesystem of the state directory takes no larger file" },
  ENAMETOOLONG: { code: "INVALID_ARGUMENT", cure: "use a shorter path" },
  EACCES: {
    code: "FAILED_PRECONDITION",
    cure: "run the driver with the rights it needs, or correct the owner and mode",
  },
  EPERM: { code: "FAILED_PRECONDITION", cure: "run the driver with the rights it needs" },
  EROFS: { code: "FAILED_PRECONDITION", cure: "mount that filesystem writable" },
};

const unexpected = {
  code: "INTERNAL",
  cure: "look at the disk and the kernel log of this node, then repeat the call",
} as const;

/** A failure of the file system as the caller shall read it; refusals and aborts pass as they are. */
export function hostFailure(what: string, error: unknown): unknown {
  const errno = errnoOf(error);
  if (errno === undefined) return error;
  const { code, cure } = codes[errno] ?? unexpected;
  return new DriverError(code, `cannot ${what}: ${messageOf(error)}; ${cure}`, { cause: error });
}

/** ENOENT and the like; undefined for whatever the file system did not say. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || error instanceof DriverError || !("code" in error)) return undefined;
  return typeof error.code === "string" && /^E[A-Z0-9]+$/.test(error.code) ? error.code : undefined;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The caller gave up, or its deadline passed. The signal's reason says which of the two. */
export function givenUp(what: string, signal: AbortSignal): DriverError {
  const reason: unknown = signal.reason;
  const late = tells(reason, "kind", "deadline") || tells(reason, "name", "TimeoutError");
  return new DriverError(
    late ? "DEADLINE_EXCEEDED" : "CANCELLED",
    `${late ? "the deadline passed" : "the call was cancelled"} while it was to ${what}; repeat the call to go on`,
    { cause: reason },
  );
}

export function throwIfGivenUp(what: string, signal: AbortSignal): void {
  if (signal.aborted) throw givenUp(what, signal);
}

function tells(reason: unknown, key: string, value: string): boolean {
  return typeof reason === "object" && reason !== null && (reason as Readonly<Record<string, unknown>>)[key] === value;
}
