import type { CallFailure, CallOutcome, Code, Verdict } from "@holdfast/csi/outcome";
import type { Advice, Failed, Failure, Outcome } from "../domain/outcome.ts";

const credentials: ReadonlySet<Code> = new Set(["PERMISSION_DENIED", "UNAUTHENTICATED"]);

/** The word of docs/errors.md for what a plugin answered; the code's own name where it says no more than that. */
const reasonOf = ({ method, code, stale, verdict: { then: next } }: CallFailure): string => {
  if (stale === true) return "STALE_ORDER";
  if (next === "check-absence") return "DETACH_UNPROVEN";
  if (next === "again" || next === "wait") return code;
  if (credentials.has(code)) return "CREDENTIALS_REFUSED";
  if (code === "ALREADY_EXISTS") return "INCOMPATIBLE";
  if (code === "NOT_FOUND" && method !== "CreateVolume") return "NOT_AT_BACKEND";
  if (code === "FAILED_PRECONDITION" && method === "ControllerPublishVolume") return "FOREIGN_ATTACHMENT";
  return "PLUGIN_REFUSED";
};

const wordOf = ({ then: next }: Verdict): Advice => (next === "continue" ? "again" : next);

/** ABORTED says that an earlier call for the same subject is under way: that one has not ended. */
const callOf = ({ sent, answered, code }: CallFailure): Pick<Failure, "call"> =>
  sent ? (answered === true && code !== "ABORTED" ? { call: "ended" } : {}) : { call: "not-sent" };

export const failureFrom = (failure: CallFailure): Failure => ({
  reason: reasonOf(failure),
  message: failure.message,
  advice: wordOf(failure.verdict),
  method: failure.method,
  code: failure.code,
  ...(failure.verdict.tellPlacement === true ? { nodeFull: true } : {}),
  ...callOf(failure),
});

export const failedFromCall = <R>(
  { outcome, failure }: Exclude<CallOutcome<unknown>, { readonly outcome: "done" }>,
  attempt: number,
): Failed<R> => {
  const { then: next, afterTries = 0 } = failure.verdict;
  // What the plugin itself did not say proves nothing of the call.
  if (outcome === "refused" && failureFrom(failure).call === undefined)
    return { kind: "unknown", failure: { ...failureFrom(failure), advice: "again" } };
  // Backends list new objects late: so many refusals in a row are answered with another try, and only then taken at their word.
  if (next === "block" && attempt <= afterTries)
    return { kind: "unknown", failure: { ...failureFrom(failure), reason: failure.code, advice: "again" } };
  return { kind: outcome, failure: failureFrom(failure) };
};

/** What a call to the plugin proves, in the domain's words. */
export const outcomeFromCall = <T, R>(
  outcome: CallOutcome<T>,
  attempt: number,
  read: (value: T) => Outcome<R>,
): Outcome<R> => (outcome.outcome === "done" ? read(outcome.value) : failedFromCall(outcome, attempt));
