/** How long to wait before the next attempt. Full jitter: any moment up to the ceiling, so that a crowd spreads out. */

export interface BackoffLimits {
  readonly baseMs: number;
  readonly capMs: number;
}

/** `attempt` counts from 0; `random` gives [0, 1). */
export function backoffDelay(attempt: number, { baseMs, capMs }: BackoffLimits, random: () => number): number {
  // 2^30 times any base is above every cap, and further doubling would end in Infinity.
  const ceiling = Math.min(capMs, baseMs * 2 ** Math.min(Math.max(0, attempt), 30));
  return Math.floor(random() * (ceiling + 1));
}

export interface BackoffOptions {
  readonly initialMs: number;
  readonly maxMs: number;
  readonly factor?: number;
  readonly random: () => number;
  /** A success counts only when it lasted this long: a peer that accepts and drops at once must not be dialled in a loop. */
  readonly resetAfterMs?: number;
}

export interface Backoff {
  /** The next delay, between half the ceiling and the ceiling, so that attempts never come in a burst. */
  next(): number;
  /** Tell how long the last attempt held; back to the start when that was long enough. */
  held(ms: number): void;
  reset(): void;
  attempts(): number;
}

export function createBackoff(options: BackoffOptions): Backoff {
  const { initialMs, maxMs, factor = 2, random, resetAfterMs = 0 } = options;
  let attempts = 0;
  return {
    next() {
      const ceiling = Math.min(maxMs, initialMs * factor ** attempts);
      // The exponent stops growing once the cap is reached, so that no count of attempts overflows.
      if (ceiling < maxMs) attempts += 1;
      return Math.round(ceiling * (0.5 + 0.5 * random()));
    },
    held(ms) {
      if (ms >= resetAfterMs) attempts = 0;
    },
    reset() {
      attempts = 0;
    },
    attempts: () => attempts,
  };
}
