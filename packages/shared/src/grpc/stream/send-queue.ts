/**
 * What is to be sent on one stream, in order.
 *
 * Q1 It is bounded in bytes and in number: what does not fit is told so, and is not there. Q2 What was taken out is not sent, and what
 * was handed over counts as sent. Q3 Who waits for the next frame is woken by end(), for nobody else would: a handler that waits on an
 * iterator does not learn that its peer is gone.
 */

export interface QueuedFrame {
  readonly bytes: Uint8Array;
  /** It leaves: from now on nobody can know whether the peer has it. */
  readonly onTaken?: () => void;
}

export interface SendQueue {
  /** False: full. */
  push(frame: QueuedFrame): boolean;
  /** For what is bounded elsewhere: the end of a call that has its place already. */
  pushAlways(frame: QueuedFrame): void;
  isFull(): boolean;
  /** False when it has left already. */
  remove(frame: QueuedFrame): boolean;
  bytes(): number;
  count(): number;
  readonly frames: AsyncIterable<Uint8Array>;
  end(): void;
}

export interface SendQueueLimits {
  readonly maxBytes: number;
  readonly maxFrames: number;
}

type Step = IteratorResult<Uint8Array, undefined>;
const over: Step = { done: true, value: undefined };

export function createSendQueue({ maxBytes, maxFrames }: SendQueueLimits): SendQueue {
  const queued = new Set<QueuedFrame>();
  /** It goes on where it is while the set changes; a new one for each frame would pass over all that is gone. */
  let order = queued.values();
  let bytes = 0;
  let ended = false;
  let waiting: ((step: Step) => void)[] = [];

  const next = (): QueuedFrame | undefined => {
    const step = order.next();
    if (!step.done) return step.value;
    order = queued.values();
    return order.next().value;
  };
  const take = (): Uint8Array | undefined => {
    const first = next();
    if (first === undefined) return undefined;
    queued.delete(first);
    bytes -= first.bytes.length;
    first.onTaken?.(); // Q2
    return first.bytes;
  };
  const pushAlways = (frame: QueuedFrame): void => {
    if (ended) return;
    queued.add(frame);
    bytes += frame.bytes.length;
    const wake = waiting.shift();
    if (wake === undefined) return;
    const value = take();
    wake(value === undefined ? over : { done: false, value });
  };
  const fits = (length: number): boolean => queued.size < maxFrames && bytes + length <= maxBytes;
  const close = (): void => {
    const woken = waiting;
    waiting = [];
    for (const wake of woken) wake(over); // Q3
  };

  /** By hand: a generator that waits cannot be ended from outside. */
  const iterator: AsyncIterator<Uint8Array, undefined> = {
    next() {
      if (ended) return Promise.resolve(over);
      const value = take();
      if (value !== undefined) return Promise.resolve({ done: false, value });
      return new Promise((resolve) => waiting.push(resolve));
    },
    return() {
      close();
      return Promise.resolve(over);
    },
  };

  return {
    push(frame) {
      if (ended || !fits(frame.bytes.length)) return false; // Q1
      pushAlways(frame);
      return true;
    },
    pushAlways,
    isFull: () => !fits(1),
    remove(frame) {
      if (!queued.delete(frame)) return false;
      bytes -= frame.bytes.length;
      return true;
    },
    bytes: () => bytes,
    count: () => queued.size,
    frames: { [Symbol.asyncIterator]: () => iterator },
    end() {
      ended = true;
      queued.clear();
      bytes = 0;
      close();
    },
  };
}
