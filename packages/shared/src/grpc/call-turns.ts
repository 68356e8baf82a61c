/**
 * When a call begins. A request that is reset right behind costs its sender nothing: if its work began at once, a flood of such pairs
 * would keep the service, and the store behind it, from everybody else.
 *
 * B1 A call begins after one whole turn of the event loop: what the same connection sent right behind it was read by then, and a call that
 * nobody waits for any more is dropped before its handler. One before which nothing waits begins at the end of its own turn: a flood gains
 * one call by it, whenever the queue is empty. B2 At most `perTurn` calls begin in one turn, so that everything else has its
 * turn between them; what was dropped does not count.
 */
import { reasonOf } from "../async/signals.ts";

export interface CallTurns {
  /** Resolves when the call may begin; rejects with the signal's reason when nobody waits for it by then. */
  next(signal: AbortSignal): Promise<void>;
}

interface Waiting {
  readonly signal: AbortSignal;
  readonly arrived: number;
  readonly begin: () => void;
  readonly drop: (reason: unknown) => void;
}

export interface CallTurnsOptions {
  readonly perTurn: number;
  readonly onDropped: () => void;
}

/** The immediate of the turn of its arrival, and that of the turn after it; the first one alone where nothing waits. */
const turnsToWait = 2;

export function createCallTurns({ perTurn, onDropped }: CallTurnsOptions): CallTurns {
  const queue: Waiting[] = [];
  let head = 0;
  let turn = 0;
  let scheduled = false;

  const schedule = (): void => {
    if (scheduled || head === queue.length) return;
    scheduled = true;
    setImmediate(run);
  };

  const run = (): void => {
    scheduled = false;
    turn += 1;
    for (let begun = 0; begun < perTurn; ) {
      const first = queue[head];
      if (first === undefined || turn - first.arrived < turnsToWait) break; // B1
      head += 1;
      if (first.signal.aborted) {
        onDropped();
        first.drop(reasonOf(first.signal));
        continue; // B2
      }
      begun += 1;
      first.begin();
    }
    if (head > 1_024 || head === queue.length) {
      queue.splice(0, head);
      head = 0;
    }
    schedule();
  };

  return {
    next: (signal) =>
      new Promise((begin, drop) => {
        queue.push({ signal, arrived: head === queue.length ? turn - 1 : turn, begin, drop });
        schedule();
      }),
  };
}
