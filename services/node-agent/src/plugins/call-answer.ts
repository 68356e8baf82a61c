/** From the outcome of a CSI call to what the volume manager reads of it. */
import type { UnaryMethod } from "@holdfast/csi/methods";
import type { CallOutcome, CallFailure as CsiFailure, Verdict } from "@holdfast/csi/outcome";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { CallAnswer, CallFailure, CallResult, NodeMethod } from "../ports.ts";

export const settled = async (
  method: NodeMethod & UnaryMethod,
  call: () => Promise<CallOutcome<unknown>>,
): Promise<CallResult> => answered(method, call, () => undefined);

export async function answered<R, T>(
  method: NodeMethod & UnaryMethod,
  call: () => Promise<CallOutcome<R>>,
  read: (value: R) => T,
): Promise<CallAnswer<T>> {
  try {
    const outcome = await call();
    if (outcome.outcome === "done") return { kind: "done", value: read(outcome.value) };
    return { kind: outcome.outcome, failure: failureOf(method, outcome.failure) };
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    // The request breaks a limit of CSI: it was not sent, and never will be.
    const failure = {
      method,
      code: "INVALID_ARGUMENT",
      message: error.message,
      sent: false,
      advice: "fail",
      needs: needs.change,
    } as const;
    return { kind: "refused", failure };
  }
}

const needs: Record<NonNullable<Verdict["needs"]>, string> = {
  credentials: "correct the secret that the volume refers to",
  capabilities: "use a version of the plugin that offers the call",
  change: "correct what the plugin's message names",
  "other-node-detached": "detach the volume from the other node",
};

function failureOf(method: NodeMethod, { code, message, sent, verdict }: CsiFailure): CallFailure {
  return {
    method,
    code,
    message,
    sent,
    advice: adviceOf[verdict.then],
    needs: verdict.needs === undefined ? "" : needs[verdict.needs],
  };
}

type Advice = CallFailure["advice"];

/** Node calls never need the backend's listing, and a failure never continues; both would be a plain repeat. */
const adviceOf: Record<Verdict["then"], Advice> = {
  continue: "again",
  again: "again",
  wait: "wait",
  fail: "fail",
  block: "block",
  "check-mounts": "check-mounts",
  "check-absence": "again",
};
