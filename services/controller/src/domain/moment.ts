import type { RetryRule } from "./retry.ts";

/** Everything that a decision may need from outside; time and ids are arguments. */
export interface Moment {
  readonly now: number;
  readonly issuer: string;
  readonly opId: string;
  /** In [0, 1): spreads retries. */
  readonly random: number;
  readonly retry: RetryRule;
  readonly traceId?: string;
  /** Who asked for it; absent when it follows from what was asked for before. */
  readonly by?: { readonly who: string; readonly why: string };
}
