import type { ResponseOf } from "@holdfast/csi/messages";
import { methods, type UnaryMethod } from "@holdfast/csi/methods";
import { type CallOutcome, type Code, codes, verdictOf } from "@holdfast/csi/outcome";

const isCode = (word: string): word is Code => codes.some((code) => code === word);

/**
 * The outcome as the plugin's profile wants its codes read. Profiles are checked when they are set: none of them makes a code prove
 * more than the driver said, but for one that is told to mean "is gone". ABORTED says that an earlier call is under way, however it is
 * read: no reading of it ends a call.
 */
export const readOutcome = <M extends UnaryMethod>(
  method: M,
  outcome: CallOutcome<ResponseOf<M>>,
  reading: (method: string, code: string) => string,
): CallOutcome<ResponseOf<M>> => {
  // What was not sent is no answer of the driver.
  if (outcome.outcome === "done" || !outcome.failure.sent) return outcome;
  const { answered, ...failure } = outcome.failure;
  const code = reading(method, failure.code);
  if (code === failure.code || !isCode(code)) return outcome;
  const ended = answered === true && failure.code !== "ABORTED";
  const verdict = verdictOf(methods[method].callKind, code);
  // Only calls whose answers have no fields may be read as done.
  if (verdict.outcome === "done") return ended ? { outcome: "done", value: {} as ResponseOf<M> } : outcome;
  const message = `${failure.message} (answered ${failure.code}, read as ${code} by the plugin's profile)`;
  return { outcome: verdict.outcome, failure: { ...failure, ...(ended ? { answered } : {}), code, verdict, message } };
};
