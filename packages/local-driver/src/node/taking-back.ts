import { isAbort, reasonOf } from "@holdfast/shared/async/signals";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type CsiCode, DriverError } from "../domain/driver-error.ts";
import type { NodeParts } from "./node-parts.ts";

export interface TakingBack {
  readonly act: () => Promise<void>;
  /** Undoes whatever of it is there by now, and says what that was. Has its own time: the caller's may be over. */
  readonly undo: (signal: AbortSignal) => Promise<readonly string[]>;
  /** The call that finishes what `undo` could not. */
  readonly cure: string;
}

/** A failed `act` leaves nothing behind, or says what it left. */
export async function takingBack(
  { undoMs }: Pick<NodeParts, "undoMs">,
  { act, undo, cure }: TakingBack,
  signal: AbortSignal,
): Promise<void> {
  try {
    await act();
  } catch (error) {
    const note = await undo(AbortSignal.timeout(undoMs)).then(
      (done) => (done.length === 0 ? "nothing was left behind" : `taken back: ${done.join(", ")}`),
      (why: unknown) => `not everything could be taken back (${messageOf(why)}); ${cure} takes the rest`,
    );
    throw withNote(error, note, signal);
  }
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** What nobody threw as an answer of the host (a fault of ours) goes on as it is. */
function withNote(error: unknown, note: string, signal: AbortSignal): unknown {
  if (error instanceof DriverError) return new DriverError(error.code, `${error.message}; ${note}`, { cause: error });
  if (signal.aborted && (isAbort(error) || error === signal.reason)) {
    const reason = reasonOf(signal);
    return new DriverError(codeOf(reason), `${reason.message}; ${note}`, { cause: error });
  }
  if (error instanceof Error && "code" in error && typeof error.code === "string")
    return new DriverError(noRoom.has(error.code) ? "RESOURCE_EXHAUSTED" : "INTERNAL", `${error.message}; ${note}`, {
      cause: error,
    });
  return error;
}

const noRoom: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT"]);

const codeOf = (reason: Error): CsiCode =>
  reason.name === "TimeoutError" || (isHoldfastError(reason) && reason.kind === "deadline")
    ? "DEADLINE_EXCEEDED"
    : "CANCELLED";
