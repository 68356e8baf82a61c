import type { CallUnderWay } from "../../domain/call-under-way.ts";
import type { Attempts, Blocked } from "../../domain/outcome.ts";

/** The two sentences about whatever does not go on, for people. */

export const blockedFinding = (what: string, blocked: Blocked | undefined): readonly string[] =>
  blocked === undefined
    ? []
    : [`${what} is blocked (${blocked.reason}): ${blocked.message}; missing: ${blocked.missingProof}.`];

/** A block often says what its last attempt was answered: nobody reads that twice. */
export const attemptsFinding = (
  what: string,
  { count, lastError }: { readonly count: number; readonly lastError?: Attempts["lastError"] | undefined },
  blocked: Blocked | undefined,
): readonly string[] => {
  if (lastError === undefined) return [];
  const { reason, message, method, code } = lastError;
  const told = message === "" || blocked?.message.includes(message) === true;
  const call = method === undefined ? "" : ` (${method}${code === undefined || code === reason ? "" : ` ${code}`})`;
  return [`${what}: the last of ${count} attempts ended with ${reason}${call}${told ? "" : `: ${message}`}.`];
};

const time = (ms: number): string => new Date(ms).toISOString();

/** The call that is under way, once it has lasted for a while. */
export const callFinding = (what: string, call: CallUnderWay | undefined): readonly string[] =>
  call === undefined
    ? []
    : [
        `${what} waits for ${call.method}${call.attempt === 0 ? "" : ` (attempt ${call.attempt})`}: plugin instance "${call.instance}" has it since ${time(call.since)} and has not answered; its answer is waited for until ${time(call.deadline)}.`,
      ];
