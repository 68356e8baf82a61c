import type { Blocked, LastError } from "@holdfast/shared/gen/holdfast/v1/common";
import { CliFailure } from "../frame/cli-failure.ts";
import { exitCodes } from "../frame/exit-code.ts";
import { lastErrorText } from "./resource-words.ts";

/** Ends a wait for what cannot go on by itself: with the reason, and first of all what clears it. */
export const blockedFailure = (what: string, blocked: Blocked, look: string): CliFailure =>
  new CliFailure({
    exitCode: exitCodes.blocked,
    reason: blocked.reason,
    message: `${what} is blocked: ${blocked.message}`,
    details: blocked.missingProof === "" ? [] : [`missing proof: ${blocked.missingProof}`],
    next: [...(blocked.clearWith === "" ? [] : [blocked.clearWith]), look],
  });

/** Ends a wait for what is over and did not get there. `state`: REFUSED, FAILED. */
export const overFailure = (
  what: string,
  state: string,
  error: LastError | undefined,
  next: readonly string[],
): CliFailure =>
  new CliFailure({
    exitCode: exitCodes.failed,
    reason: error?.reason ?? state,
    message: `${what} is ${state}: ${lastErrorText(error)}`,
    next,
  });
