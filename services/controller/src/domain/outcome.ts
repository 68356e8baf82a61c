/**
 * What one attempt of an effect tells. `refused` is certain for this attempt only; whether nothing is left behind depends on the
 * attempts before it (`uncertainSince` of the intent). `unknown` keeps the undo owed.
 */
export type Outcome<T> =
  | { readonly kind: "done"; readonly value: T }
  | { readonly kind: "refused"; readonly failure: Failure }
  | { readonly kind: "unknown"; readonly failure: Failure };

export type Failed<T = unknown> = Exclude<Outcome<T>, { readonly kind: "done" }>;

/** What the table of codes advises after a failure. */
export type Advice = "again" | "wait" | "fail" | "block" | "check-absence" | "check-mounts";

export interface Failure {
  /** Stable UPPER_SNAKE reason. */
  readonly reason: string;
  /** For people: scrubbed and cut. */
  readonly message: string;
  readonly advice: Advice;
  readonly method?: string;
  /** Status name of the plugin's answer, when it gave one. */
  readonly code?: string;
  /** Placement should know that the node has no attach slot left. */
  readonly nodeFull?: boolean;
  /** The call was answered, and what it made stands at the backend: no later refusal proves that nothing does. */
  readonly leaves?: true;
  /** What is known of the attempt's call; absent = it may be open at the plugin. */
  readonly call?: "ended" | "not-sent";
}

/** Nothing left this process, so that the attempt adds no doubt. */
export const neverSent = ({ call }: Failure): boolean => call === "not-sent";

/** The holder of the plugin's socket refused the call as overtaken: no outcome of the effect, the attempt has to be stored anew. */
export const isStale = ({ reason, call }: Failure): boolean => reason === "STALE_ORDER" && call === "not-sent";

/** Why something cannot go on by itself, and what a person can do about it. */
export interface Blocked {
  readonly since: number;
  readonly reason: string;
  readonly message: string;
  readonly missingProof: string;
  readonly clearWith: string;
}

/** What something ended with, as far as it is kept. */
export interface Ending {
  readonly reason: string;
  readonly message: string;
  /** The CSI call, and the status that it was answered with. */
  readonly method?: string;
  readonly code?: string;
  /** Which attempt of the step it was. */
  readonly attempt?: number;
}

/** `before`: attempts that failed before this one. */
export const endingOf = ({ reason, message, method, code }: Ending, before?: number): Ending => ({
  reason,
  message,
  ...(method === undefined ? {} : { method }),
  ...(code === undefined ? {} : { code }),
  ...(before === undefined || method === undefined ? {} : { attempt: before + 1 }),
});

export interface LastError extends Ending {
  readonly at: number;
  readonly traceId?: string;
}

/** Retry state of one owed effect, stored so that a restart goes on where it was. */
export interface Attempts {
  readonly count: number;
  readonly nextTry: number;
  readonly lastError?: LastError;
}

export const noAttempts: Attempts = { count: 0, nextTry: 0 };
