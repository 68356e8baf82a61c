/**
 * Bodies by Transfer at the agent, which opens one for each, whichever way it goes.
 *
 * O1 At most `limit` are open at once; more wait for their turn. O2 A body counts as sent when the other side has ended the transfer after
 * its end, and not before.
 */
import { createLimiter, type Limiter } from "../../async/limiter.ts";
import type { Pace } from "../../async/pace.ts";
import type { TransferBody, TransferChunk, TransferOpen } from "../../gen/holdfast/internal/v1/controller_link.ts";
import type { BodyTransfers } from "./body-transfers.ts";
import { transferCut } from "./stream-errors.ts";
import { chunksOf, cutBy, endsBody, messagesOf, openingChunk } from "./transfer-chunks.ts";

export interface TransferOpenerOptions {
  readonly open: (chunks: AsyncIterable<TransferChunk>, signal: AbortSignal) => AsyncIterable<TransferChunk>;
  readonly node: string;
  /** As its Hello names it. */
  readonly stream: string;
  readonly limit: number;
  /** Of all bodies that this process reads. */
  readonly pace: Pick<Pace, "take">;
}

const maxWaiting = 1024;

export function createTransferOpener({ open, node, stream, limit, pace }: TransferOpenerOptions): BodyTransfers {
  const places = createLimiter({ name: `transfers of ${node}`, limit, maxQueued: maxWaiting });
  const opening = (body: TransferBody, seq: number): TransferOpen => ({ node, stream, body, seq: BigInt(seq) });

  return {
    async send(body, seq, messages, signal) {
      const leave = await enter(places, signal); // O1
      let whole = false;
      async function* chunks(): AsyncGenerator<TransferChunk> {
        yield openingChunk(opening(body, seq));
        for await (const chunk of chunksOf(messages, signal)) {
          whole = endsBody(chunk);
          yield chunk;
        }
      }
      try {
        for await (const _ of open(chunks(), signal));
        if (!whole) throw transferCut("the other side ended it"); // O2
      } catch (error) {
        throw cutBy(error, signal);
      } finally {
        leave();
      }
    },
    async *receive(body, seq, signal) {
      const leave = await enter(places, signal); // O1
      async function* request(): AsyncGenerator<TransferChunk> {
        yield openingChunk(opening(body, seq));
      }
      try {
        yield* messagesOf(open(request(), signal), pace, signal);
      } finally {
        leave();
      }
    },
  };
}

function enter(places: Limiter, signal: AbortSignal): Promise<() => void> {
  return new Promise((resolve, reject) => {
    places.run(signal, () => new Promise<void>((leave) => resolve(leave))).catch(reject);
  });
}
