/**
 * The attempts of one question. Only what the policy table allows is asked again, only after something was really sent, and
 * only once the plugin is ready: the answer may come from another process than the one that failed.
 */
import { backoffDelay } from "@holdfast/shared/async/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";
import { callPolicy } from "./call-policy.ts";
import type { UnaryMethod } from "./methods.ts";
import type { CallOutcome } from "./outcome.ts";

export type AskAgain = <T>(
  method: UnaryMethod,
  limits: { readonly signal: AbortSignal; readonly deadlineMs?: number },
  /** Gets the time that is left for it. */
  ask: (leftMs: number) => Promise<CallOutcome<T>>,
) => Promise<CallOutcome<T>>;

const pauses = { baseMs: 50, capMs: 1_000 };

export function createAskAgain(options: {
  readonly clock: Clock;
  readonly random: () => number;
  readonly whenReady: (signal: AbortSignal) => Promise<unknown>;
}): AskAgain {
  const { clock, random, whenReady } = options;

  /** False when the caller gave up or the time ran out first. */
  const ready = async (attempt: number, leftMs: number, signal: AbortSignal): Promise<boolean> => {
    const until = linkSignals(signal);
    const stopTimer = clock.timer(leftMs, () => until.abort(new DOMException("the time is up", "TimeoutError")));
    try {
      await clock.sleep(backoffDelay(attempt, pauses, random), until.signal);
      await whenReady(until.signal);
      return true;
    } catch {
      return false;
    } finally {
      stopTimer();
      until.dispose();
    }
  };

  return async (method, { signal, deadlineMs }, ask) => {
    const policy = callPolicy[method];
    const total = deadlineMs ?? policy.deadlineMs;
    const started = clock.monotonic();
    const left = (): number => total - (clock.monotonic() - started);
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await ask(attempt === 1 ? total : left());
      if (outcome.outcome === "done" || attempt >= policy.attempts) return outcome;
      if (!outcome.failure.sent || !policy.retryCodes.includes(outcome.failure.code)) return outcome;
      if (!(await ready(attempt, left(), signal)) || left() <= 0) return outcome;
    }
  };
}
