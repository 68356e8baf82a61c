/** Why a volume cannot go on now, in the words that a claim is told in. */
import type { Halt } from "../domain/answer-types.ts";
import type { BlockSeen, FailureSeen } from "./controller-claims.ts";

export function haltWords(
  halt: Halt | undefined,
  now: number,
): { readonly blocked?: BlockSeen; readonly failure?: FailureSeen } | undefined {
  if (halt === undefined) return undefined;
  const { reason, message, method, code, blocked } = halt;
  const failure = { reason, message, method, code, at: now };
  return blocked === undefined ? { failure } : { failure, blocked: { since: now, reason, message, ...blocked } };
}
