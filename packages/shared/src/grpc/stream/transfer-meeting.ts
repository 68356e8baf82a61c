/**
 * Bodies by Transfer at the controller: a call expects one, the agent opens it, and whichever comes first waits for the other. One for
 * each stream.
 *
 * J1 Neither waits longer than the patience, and whoever gives up leaves nothing behind. J2 A transfer that nobody expects is refused, and
 * so are those above what may wait. J3 A transfer ends with its call, and a call learns when its transfer was cut.
 */
import type { Clock } from "../../async/clock.ts";
import type { Pace } from "../../async/pace.ts";
import { linkSignals, onAbort, reasonOf, waitFor } from "../../async/signals.ts";
import { HoldfastError } from "../../errors/holdfast-error.ts";
import type { TransferBody, TransferChunk, TransferOpen } from "../../gen/holdfast/internal/v1/controller_link.ts";
import type { BodyTransfers } from "./body-transfers.ts";
import { transferCut } from "./stream-errors.ts";
import { chunksOf, cutBy, endsBody, messagesOf } from "./transfer-chunks.ts";

export interface TransferMeetingOptions {
  readonly clock: Pick<Clock, "timer">;
  readonly patienceMs: number;
  /** Of all bodies that this process reads. */
  readonly pace: Pick<Pace, "take">;
}

export interface TransferMeeting {
  readonly bodies: BodyTransfers;
  /** What the agent is to be sent. The opening chunk may be among `chunks` or not. `signal` is aborted when the agent is gone. */
  arrived(
    open: TransferOpen,
    chunks: AsyncIterable<TransferChunk>,
    signal: AbortSignal,
  ): AsyncGenerator<TransferChunk, undefined>;
  /** The stream has ended: nobody waits any more. */
  end(): void;
}

interface Arrival {
  readonly chunks: AsyncIterable<TransferChunk>;
  readonly signal: AbortSignal;
  readonly answer: (answers: AsyncIterable<TransferChunk>) => void;
}

interface Waiting<T> {
  readonly meet: (other: T) => void;
  readonly giveUp: (error: Error) => void;
}

/** An agent opens four at once; those that it gave up may be here still. */
const maxArrived = 64;

export function createTransferMeeting({ clock, patienceMs, pace }: TransferMeetingOptions): TransferMeeting {
  const expecting = new Map<string, Waiting<Arrival>>();
  const arrivals = new Map<string, Waiting<void>>();
  let over = false;

  /** J1 */
  const wait = <T>(among: Map<string, Waiting<T>>, key: string, signal: AbortSignal, late: HoldfastError): Promise<T> =>
    new Promise((resolve, reject) => {
      const leave = (): void => {
        among.delete(key);
        cancel();
        stopListening?.();
      };
      const giveUp = (error: Error): void => {
        leave();
        reject(error);
      };
      const cancel = clock.timer(patienceMs, () => giveUp(late));
      const meet = (other: T): void => {
        leave();
        resolve(other);
      };
      among.set(key, { meet, giveUp });
      const stopListening = signal.aborted ? undefined : onAbort(signal, () => giveUp(reasonOf(signal)));
      if (signal.aborted) giveUp(reasonOf(signal));
      else if (over) giveUp(transferCut("the stream has ended"));
    });

  const opened = new Map<string, Arrival>();
  const expect = async (body: TransferBody, seq: number, signal: AbortSignal): Promise<Arrival> => {
    const key = `${body} ${seq}`;
    const here = opened.get(key);
    if (here === undefined) return await wait(expecting, key, signal, transferCut("the agent did not open it"));
    arrivals.get(key)?.meet();
    return here;
  };

  async function* arrived(
    { body, seq }: TransferOpen,
    chunks: AsyncIterable<TransferChunk>,
    signal: AbortSignal,
  ): AsyncGenerator<TransferChunk, undefined> {
    const key = `${body} ${seq}`;
    if (opened.has(key) || opened.size >= maxArrived) throw unexpected(key); // J2
    const { promise: answers, resolve: answer } = Promise.withResolvers<AsyncIterable<TransferChunk>>();
    const arrival = { chunks, signal, answer };
    const expected = expecting.get(key);
    if (expected !== undefined) expected.meet(arrival);
    else {
      opened.set(key, arrival);
      try {
        await wait(arrivals, key, signal, unexpected(key)); // J2
      } finally {
        opened.delete(key);
      }
    }
    yield* await waitFor(answers, signal);
  }

  const bodies: BodyTransfers = {
    async send(body, seq, messages, signal) {
      const arrival = await expect(body, seq, signal);
      const both = linkSignals(signal, arrival.signal);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      async function* answers(): AsyncGenerator<TransferChunk> {
        try {
          for await (const chunk of chunksOf(messages, both.signal)) {
            if (endsBody(chunk)) resolve();
            yield chunk;
          }
        } finally {
          reject(transferCut("the agent did not read all of it")); // J3
        }
      }
      arrival.answer(answers());
      try {
        await waitFor(promise, both.signal); // J3
      } catch (error) {
        throw cutBy(error, signal);
      } finally {
        both.dispose();
      }
    },
    async *receive(body, seq, signal) {
      const arrival = await expect(body, seq, signal);
      const both = linkSignals(signal, arrival.signal);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      // biome-ignore lint/correctness/useYield: there is nothing to answer, but when it is read
      async function* answers(): AsyncGenerator<TransferChunk> {
        await waitFor(promise, both.signal);
      }
      arrival.answer(answers());
      try {
        yield* messagesOf(arrival.chunks, pace, both.signal);
        resolve();
      } catch (error) {
        throw arrival.signal.aborted ? cutBy(error, signal) : error;
      } finally {
        promise.catch(() => undefined);
        reject(transferCut("nobody reads it any more")); // J3
        both.dispose();
      }
    },
  };

  return {
    bodies,
    arrived,
    end() {
      over = true;
      const why = transferCut("the stream has ended");
      for (const { giveUp } of [...expecting.values(), ...arrivals.values()]) giveUp(why);
    },
  };
}

function unexpected(key: string): HoldfastError {
  return new HoldfastError({
    kind: "not_found",
    reason: "TRANSFER_UNEXPECTED",
    message: `no call here expects transfer ${key} (body and number of the call); it may have been given up`,
  });
}
