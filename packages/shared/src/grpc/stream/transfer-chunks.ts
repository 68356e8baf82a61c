/**
 * Messages as the chunks of a Transfer, and back.
 *
 * K1 A body without its end is none. K2 How the messages failed is passed on; that they were given up is not: then there is no end.
 * K3 Nothing is read ahead: who takes chunks slowly holds back who sends. K4 A message of more than 16 MiB fails, at both ends.
 * K5 A message is put together as it comes, at the length that was said: to join 16 MiB at its end holds everything else up.
 * K6 All bodies that one process reads share a pace: without it orders on the same connection stand behind them.
 */
import type { Pace } from "../../async/pace.ts";
import { reasonOf, waitFor } from "../../async/signals.ts";
import { isHoldfastError } from "../../errors/holdfast-error.ts";
import type { TransferChunk, TransferOpen } from "../../gen/holdfast/internal/v1/controller_link.ts";
import { pluginMaxMessageBytes } from "../message-limits.ts";
import { bytesOf, type MessagePieces } from "./message-pieces.ts";
import { maxFrameBytes } from "./serve-wire.ts";
import { messageTooLarge, transferCut } from "./stream-errors.ts";
import { statusOfError, ToldStatus } from "./wire-status.ts";

/** At 8 MiB the p99 of the orders beside it is nearly doubled (bench, section agents); what goes by Transfer seldom has a megabyte. */
export const transferBytesPerSecond = 6 * 1024 * 1024;

const nothing = new Uint8Array(0);
const chunk = (told: Partial<TransferChunk>): TransferChunk => ({
  open: undefined,
  data: nothing,
  endsMessage: false,
  messageBytes: 0,
  ...told,
});

/** The agent's first, and nothing beside it. */
export const openingChunk = (open: TransferOpen): TransferChunk => chunk({ open });

export const endsBody = ({ complete, failure }: TransferChunk): boolean => complete === true || failure !== undefined;

export async function* chunksOf(
  messages: AsyncIterable<MessagePieces>,
  signal: AbortSignal,
): AsyncGenerator<TransferChunk, undefined> {
  const iterator = messages[Symbol.asyncIterator]();
  try {
    for (;;) {
      const step = await waitFor(iterator.next(), signal); // K3
      if (step.done) break;
      yield* cutMessage(step.value);
    }
  } catch (error) {
    if (signal.aborted) throw reasonOf(signal); // K2
    yield chunk({ failure: statusOfError(error) });
    return;
  } finally {
    leave(iterator);
  }
  yield chunk({ complete: true }); // K1
}

export async function* messagesOf(
  chunks: AsyncIterable<TransferChunk>,
  pace: Pick<Pace, "take">,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, undefined> {
  const iterator = chunks[Symbol.asyncIterator]();
  /** The message that is on its way, and how much of it is here. K5 */
  let message: Buffer | undefined;
  let size = 0;
  try {
    for (;;) {
      const { data, endsMessage, messageBytes, complete, failure } = await nextChunk(iterator, signal);
      if (message === undefined && (data.length > 0 || endsMessage)) {
        if (messageBytes > pluginMaxMessageBytes) throw messageTooLarge("a message", pluginMaxMessageBytes); // K4
        message = Buffer.allocUnsafeSlow(messageBytes);
      }
      if (data.length > 0) await pace.take(data.length, signal); // K6
      if (message !== undefined) {
        if (size + data.length > message.length) throw transferCut("a message is longer than was said"); // K4
        message.set(data, size);
        size += data.length;
      }
      if (endsMessage && message !== undefined) {
        if (size < message.length) throw transferCut("a message is shorter than was said"); // K1
        yield message;
        message = undefined;
        size = 0;
      }
      if (complete !== true && failure === undefined) continue;
      await drain(iterator, signal);
      if (failure !== undefined) throw new ToldStatus(failure); // K2
      if (message !== undefined) throw transferCut("it ends within a message"); // K1
      return;
    }
  } finally {
    leave(iterator);
  }
}

/** What goes wrong with a transfer says nothing of the call itself. */
export function cutBy(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return reasonOf(signal);
  if (error instanceof ToldStatus || (isHoldfastError(error) && error.reason === "TRANSFER_CUT")) return error;
  return transferCut(error instanceof Error ? error.message : String(error));
}

async function nextChunk(iterator: AsyncIterator<TransferChunk>, signal: AbortSignal): Promise<TransferChunk> {
  let step: IteratorResult<TransferChunk>;
  try {
    step = await waitFor(iterator.next(), signal);
  } catch (error) {
    throw cutBy(error, signal);
  }
  if (step.done) throw transferCut("it ended before its end"); // K1
  return step.value;
}

/** The call that carried it ends by itself then; to leave it would reset it. */
async function drain(iterator: AsyncIterator<TransferChunk>, signal: AbortSignal): Promise<void> {
  try {
    while (!(await waitFor(iterator.next(), signal)).done);
  } catch {
    // The body is whole, whatever became of the call.
  }
}

function* cutMessage(pieces: MessagePieces): Generator<TransferChunk> {
  const messageBytes = bytesOf(pieces);
  if (messageBytes > pluginMaxMessageBytes) throw messageTooLarge("a message", pluginMaxMessageBytes); // K4
  let sent = 0;
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += maxFrameBytes) {
      const data = piece.subarray(at, at + maxFrameBytes);
      const first = sent === 0;
      sent += data.length;
      yield chunk({ data, endsMessage: sent === messageBytes, ...(first ? { messageBytes } : undefined) });
    }
  }
  if (messageBytes === 0) yield chunk({ endsMessage: true });
}

/** Nobody waits for it: one that is at work does not hear of it before it is done. */
function leave(iterator: AsyncIterator<unknown>): void {
  iterator.return?.().catch(() => undefined);
}
