/**
 * The orders to one node: so many at once, and more that wait for their turn.
 *
 * OL1 An order that was in flight at two stream ends in a row goes alone: it may be what ends the stream, and takes no others along then.
 * OL2 It keeps the others back for a bounded time: what ends a stream ends it soon, and a plugin that hangs must not stop a node.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createLimiter } from "@holdfast/shared/async/limiter";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";

export interface OrderLane {
  /** `order` is the same for an order that is sent again. */
  run<T>(order: string, signal: AbortSignal, send: () => Promise<T>): Promise<T>;
  load(): { readonly running: number; readonly waiting: number };
}

export interface OrderLaneOptions {
  readonly node: string;
  readonly clock: Pick<Clock, "timer">;
  readonly aloneMs?: number;
}

/** More than an agent works on at once, and few enough that what is lost with a stream is soon asked again. */
const inFlight = 64;
const maxWaiting = 4096;
/** Orders that are remembered as lost; one that is forgotten too soon is only not alone. */
const maxLost = 1024;
const endsInARow = 2;

export const createOrderLane = ({ node, clock, aloneMs = 10_000 }: OrderLaneOptions): OrderLane => {
  const limiter = createLimiter({ name: `orders to node ${node}`, limit: inFlight, maxQueued: maxWaiting });
  /** How many stream ends in a row each order was in flight at. */
  const lost = new Map<string, number>();
  let alone = 0;

  const noteLost = (order: string): void => {
    const ends = (lost.get(order) ?? 0) + 1;
    lost.delete(order);
    lost.set(order, ends);
    const [oldest] = lost.keys();
    if (lost.size > maxLost && oldest !== undefined) lost.delete(oldest);
  };

  /** OL1. Answers how to let the others go again. */
  const keepOthersBack = (): (() => void) => {
    let over = false;
    alone += 1;
    limiter.setLimit(1);
    const release = (): void => {
      if (over) return;
      over = true;
      stop();
      alone -= 1;
      if (alone === 0) limiter.setLimit(inFlight);
    };
    const stop = clock.timer(aloneMs, release); // OL2
    return release;
  };

  return {
    async run(order, signal, send) {
      const release = (lost.get(order) ?? 0) >= endsInARow ? keepOthersBack() : undefined;
      try {
        const answer = await limiter.run(signal, send);
        lost.delete(order);
        return answer;
      } catch (error) {
        const reason = isHoldfastError(error) ? error.reason : "";
        if (reason === "STREAM_ENDED") noteLost(order);
        else if (reason !== "NOT_SENT" && !signal.aborted) lost.delete(order);
        throw error;
      } finally {
        release?.();
      }
    },
    load: () => ({ running: limiter.running(), waiting: limiter.queued() }),
  };
};
