/** How long to wait before the next attempt: twice the last step, up to a cap, and a draw so that a crowd spreads out. */

export interface BackoffLimits {
  readonly baseMs: number;
  readonly capMs: number;
  /** The share of the step that is waited whatever is drawn; none by default. */
  readonly least?: number;
}

/** `attempt` counts from 0; `draw` is at least 0 and below 1. */
export function backoffDelay(attempt: number, { baseMs, capMs, least = 0 }: BackoffLimits, draw: number): number {
  // 2^30 times any base is above every cap, and further doubling would end in Infinity.
  const step = Math.min(capMs, baseMs * 2 ** Math.min(Math.max(0, attempt), 30));
  return Math.round(step * (least + (1 - least) * draw));
}

export interface BackoffOptions extends BackoffLimits {
  readonly random: () => number;
  /** A success counts only when it lasted this long: a peer that accepts and drops at once must not be dialled in a loop. */
  readonly resetAfterMs?: number;
}

export interface Backoff {
  /** The next delay, at least half of the step, so that attempts never come in a burst. */
  next(): number;
  /** Tell how long the last attempt held; back to the start when that was long enough. */
  held(ms: number): void;
  reset(): void;
}

export function createBackoff({ random, resetAfterMs = 0, ...limits }: BackoffOptions): Backoff {
  let attempts = 0;
  return {
    next: () => backoffDelay(attempts++, { least: 0.5, ...limits }, random()),
    held(ms) {
      if (ms >= resetAfterMs) attempts = 0;
    },
    reset() {
      attempts = 0;
    },
  };
}
