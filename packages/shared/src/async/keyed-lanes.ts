/**
 * One at a time per key, in the order of asking; different keys do not wait for each other.
 *
 * L1 At most one function of a key runs at any moment, held until it has settled, however long the caller waits.
 * L2 An aborted waiter rejects and leaves the queue; its function is never called.
 * L3 A key is forgotten when its last function has settled.
 */
import { onAbort, reasonOf } from "./signals.ts";

export interface KeyedLanes {
  /** Runs `fn` when it is its turn. Once running it is not interrupted: `fn` has to watch the signal itself. */
  run<T>(key: string, signal: AbortSignal | undefined, fn: () => Promise<T>): Promise<T>;
  /** Keys with something running. */
  size(): number;
  /** Something of that key is running. */
  busy(key: string): boolean;
  /** Waiters of a key, the running one not counted. */
  waiting(key: string): number;
}

type Waiter = () => void;

export function createKeyedLanes(): KeyedLanes {
  const lanes = new Map<string, Set<Waiter>>();

  const turn = (key: string, signal: AbortSignal | undefined): Promise<void> | undefined => {
    const lane = lanes.get(key);
    if (lane === undefined) {
      lanes.set(key, new Set());
      return undefined;
    }
    return new Promise((resolve, reject) => {
      const giveUp = (given: AbortSignal): void => {
        lane.delete(waiter); // L2
        reject(reasonOf(given));
      };
      const leave = signal && onAbort(signal, () => giveUp(signal));
      const waiter = (): void => {
        leave?.();
        resolve();
      };
      lane.add(waiter);
    });
  };

  const leave = (key: string): void => {
    const lane = lanes.get(key);
    const next = lane?.values().next().value;
    if (lane === undefined || next === undefined) {
      lanes.delete(key); // L3
      return;
    }
    lane.delete(next);
    next();
  };

  return {
    async run(key, signal, fn) {
      if (signal?.aborted) throw reasonOf(signal);
      const wait = turn(key, signal);
      if (wait !== undefined) await wait;
      try {
        // The lane may have been handed over in the same turn as the abort.
        if (signal?.aborted) throw reasonOf(signal);
        return await fn();
      } finally {
        leave(key); // L1
      }
    },
    size: () => lanes.size,
    busy: (key) => lanes.has(key),
    waiting: (key) => lanes.get(key)?.size ?? 0,
  };
}
