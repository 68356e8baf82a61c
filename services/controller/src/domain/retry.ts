import { backoffDelay } from "@holdfast/model/backoff";
import { type Attempts, endingOf, type Failure } from "./outcome.ts";

export interface RetryRule {
  readonly baseMs: number;
  readonly capMs: number;
}

/** 0.5 s doubling to 60 s with full jitter, never below a tenth of the step so that a lucky draw cannot spin. */
export const defaultRetry: RetryRule = { baseMs: 500, capMs: 60_000 };

export const retryDelay = (attempt: number, rule: RetryRule, random: number): number =>
  backoffDelay(attempt, { ...rule, least: 0.1 }, random);

/** No pause is as long as this. */
const beyondAnyPauseMs = 10 * defaultRetry.capMs;

/** When the next try is; a time that no pause can reach is of a wall clock that was set back since, and is over. */
export const triesAt = ({ nextTry }: Attempts, now: number): number => (nextTry - now > beyondAnyPauseMs ? 0 : nextTry);

const pauseAfter = (
  { count }: Attempts,
  { advice }: Failure,
  { retry, random }: { readonly retry: RetryRule; readonly random: number },
): number =>
  // Blocked work is looked at slowly: somebody may have removed the cause.
  retryDelay(advice === "block" ? count + 4 : count, retry, random);

/** One more failed attempt of the effect that is owed. */
export const failedAttempt = (
  before: Attempts,
  failure: Failure,
  at: { readonly now: number; readonly random: number; readonly retry: RetryRule; readonly traceId?: string },
): Attempts => ({
  count: before.count + 1,
  nextTry: at.now + pauseAfter(before, failure, at),
  lastError: {
    ...endingOf(failure, before.count),
    at: at.now,
    ...(at.traceId === undefined ? {} : { traceId: at.traceId }),
  },
});
