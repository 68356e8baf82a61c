/**
 * Bounded concurrency with a bounded queue: past both, callers are refused at once instead of waiting for ever.
 *
 * M1 Never more than `limit()` functions run. M2 Never more than `maxQueued` wait. M3 An aborted waiter rejects and leaves.
 */
import { HoldfastError } from "../errors/holdfast-error.ts";
import { onAbort, reasonOf } from "./signals.ts";

export interface LimiterOptions {
  /** Named in the refusal: whose bound it is. */
  readonly name: string;
  readonly limit: number;
  readonly maxQueued: number;
}

export interface Limiter {
  run<T>(signal: AbortSignal | undefined, fn: () => Promise<T>): Promise<T>;
  /** Takes effect at once for the waiting, and as they end for the running. */
  setLimit(limit: number): void;
  limit(): number;
  running(): number;
  queued(): number;
}

export function createLimiter({ name, limit: initial, maxQueued }: LimiterOptions): Limiter {
  let limit = Math.max(1, initial);
  let running = 0;
  const queue = new Set<() => void>();

  const admit = (): void => {
    for (const waiter of queue) {
      if (running >= limit) return; // M1
      queue.delete(waiter);
      running += 1;
      waiter();
    }
  };

  const enter = (signal: AbortSignal | undefined): Promise<void> | undefined => {
    if (running < limit && queue.size === 0) {
      running += 1;
      return undefined;
    }
    if (queue.size >= maxQueued) throw overloaded(name, limit, queue.size); // M2
    return new Promise((resolve, reject) => {
      const giveUp = (given: AbortSignal): void => {
        queue.delete(waiter); // M3
        reject(reasonOf(given));
      };
      const leave = signal && onAbort(signal, () => giveUp(signal));
      const waiter = (): void => {
        leave?.();
        resolve();
      };
      queue.add(waiter);
    });
  };

  return {
    async run(signal, fn) {
      if (signal?.aborted) throw reasonOf(signal);
      const wait = enter(signal);
      if (wait !== undefined) await wait;
      try {
        if (signal?.aborted) throw reasonOf(signal);
        return await fn();
      } finally {
        running -= 1;
        admit();
      }
    },
    setLimit(next) {
      limit = Math.max(1, next);
      admit();
    },
    limit: () => limit,
    running: () => running,
    queued: () => queue.size,
  };
}

function overloaded(name: string, limit: number, queued: number): HoldfastError {
  return new HoldfastError({
    kind: "exhausted",
    reason: "OVERLOADED",
    message: `${name}: ${limit} calls run and ${queued} wait already; try again later`,
    metadata: { limiter: name },
  });
}
