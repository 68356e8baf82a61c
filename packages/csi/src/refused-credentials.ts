/**
 * What plugins refused for the sake of credentials. The same call with the very same secret is answered as before without being made: many
 * backends lock an account after some refusals. It is made again once the secret was changed, for whoever asks anew, and now and then in case
 * that the other side was changed.
 *
 * R1 Only certain refusals are remembered, and only of calls that carried a secret. R2 What is remembered names a version and no value.
 * R3 Memory is bounded; what is forgotten is tried once more. R4 What is remembered is no answer to this call: it was not sent, and says
 * nothing of an earlier one that may be open.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import type { CsiCaller } from "./csi-caller.ts";
import type { CallFailure, CallOutcome, Code } from "./outcome.ts";

export interface RefusedCredentials {
  /** The instance as calls with this secret may use it; without a version there is none, and it may do as it likes. */
  guard<I extends Pick<CsiCaller, "call">>(plugin: string, instance: I, secret: { readonly version: string }): I;
}

interface Refusal {
  readonly at: number;
  readonly failure: CallFailure;
}

const codes: ReadonlySet<Code> = new Set(["UNAUTHENTICATED", "PERMISSION_DENIED"]);
const patienceMs = 3_600_000;
const remembered = 10_000;

export const createRefusedCredentials = (clock: Pick<Clock, "monotonic">): RefusedCredentials => {
  const refusals = new Map<string, Refusal>();

  const known = (key: string): CallOutcome<never> | undefined => {
    const refusal = refusals.get(key);
    if (refusal === undefined || clock.monotonic() - refusal.at >= patienceMs) return undefined;
    const { answered: _notNow, ...failure } = refusal.failure;
    return { outcome: "refused", failure: { ...failure, sent: false } }; // R4
  };

  const learn = (key: string, outcome: CallOutcome<unknown>): void => {
    refusals.delete(key);
    if (outcome.outcome !== "refused" || !codes.has(outcome.failure.code)) return; // R1
    refusals.set(key, { at: clock.monotonic(), failure: outcome.failure });
    const oldest = refusals.size > remembered ? refusals.keys().next().value : undefined;
    if (oldest !== undefined) refusals.delete(oldest); // R3
  };

  return {
    guard: (plugin, instance, { version }) =>
      version === ""
        ? instance
        : {
            ...instance,
            async call(method, request, options) {
              const { namespace = "", volume = "", node = "", claim = "", attempt = 1 } = options.subject ?? {};
              // R2: one call may be tried with several secrets in turn, and each is remembered for itself.
              const key = JSON.stringify([plugin, method, namespace, volume, node, claim, version]);
              const before = attempt > 1 ? known(key) : undefined;
              if (before !== undefined) return before;
              const outcome = await instance.call(method, request, options);
              learn(key, outcome);
              return outcome;
            },
          },
  };
};
