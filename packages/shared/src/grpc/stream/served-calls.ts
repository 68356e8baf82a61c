/**
 * The calls that one side serves on a stream.
 *
 * V1 A number that is open cannot be asked again: the stream has to end. V2 A call given up is aborted, and not answered. V3 A call counts
 * until its handler has ended. V4 What is under way is bounded, and so is what is answered and not read: an answer has its place.
 */
import type { AnswerHead, CallHead } from "../../gen/holdfast/internal/v1/controller_link.ts";
import { bodyFieldsOf, type StreamSide } from "./body-fields.ts";
import type { BodyTransfers } from "./body-transfers.ts";
import { answerFrame, type FrameBody, seqOf } from "./frames.ts";
import type { MessagePieces } from "./message-pieces.ts";
import type { SendQueue } from "./send-queue.ts";
import { maxFrameBytes } from "./serve-wire.ts";
import type { ServedCaller, ServedMethod, ServedMethods } from "./served-methods.ts";
import { callsRefused, methodUnknown, transferCut } from "./stream-errors.ts";
import { statusOfError } from "./wire-status.ts";

export interface ServedCallsOptions {
  readonly side: StreamSide;
  readonly peer: string;
  readonly queue: SendQueue;
  readonly transfers: BodyTransfers;
  readonly methods: ServedMethods;
  readonly maxOpen: number;
  /** Answers that may wait to be read before the peer counts as one that does not read. */
  readonly maxUnread: number;
}

export interface ServedCalls {
  /** Throws when the stream has to end. */
  called(head: CallHead, body: FrameBody | undefined): void;
  cancelled(seq: number): void;
  count(): number;
  end(): void;
  /** Resolves when it was ended and every handler has. */
  readonly ended: Promise<void>;
}

interface Serving {
  readonly seq: number;
  readonly field: number;
  readonly abort: AbortController;
}

const otherSide: Readonly<Record<StreamSide, StreamSide>> = { agent: "controller", controller: "agent" };

const nothing = new Uint8Array(0);

export function createServedCalls(options: ServedCallsOptions): ServedCalls {
  const { side, peer, queue, transfers, methods, maxOpen, maxUnread } = options;
  const fields = bodyFieldsOf[otherSide[side]];
  if (fields.service !== methods.service) throw new Error(`the ${side} serves ${fields.service} on a stream`);
  const open = new Map<number, Serving>();
  const { promise: ended, resolve: endNow } = Promise.withResolvers<void>();
  let over = false;

  const push = (seq: number, told: Partial<AnswerHead>, body: FrameBody | undefined): void =>
    queue.pushAlways({ bytes: answerFrame(headOf(seq, told), body) });
  const refuse = (seq: number, error: unknown): void => push(seq, { failure: statusOfError(error) }, undefined);

  const sendByTransfer = async (
    { seq, field, abort }: Serving,
    messages: AsyncIterable<MessagePieces>,
  ): Promise<void> => {
    push(seq, { byTransfer: true }, { field, bytes: nothing });
    await transfers.send(fields.answer, seq, messages, abort.signal);
  };

  const answer = async (serving: Serving, pieces: MessagePieces): Promise<void> => {
    const { seq, field, abort } = serving;
    if (abort.signal.aborted) return; // V2
    const [bytes = nothing, ...others] = pieces;
    const small = others.length === 0 && bytes.length < maxFrameBytes;
    const whole = small ? answerFrame(headOf(seq), { field, bytes }) : undefined;
    if (whole !== undefined && whole.length <= maxFrameBytes) queue.pushAlways({ bytes: whole });
    else await sendByTransfer(serving, only(pieces));
  };

  /** One that fails before its first message is answered as a call that does not stream. */
  const stream = async (serving: Serving, messages: AsyncGenerator<MessagePieces>): Promise<void> => {
    const { seq, abort } = serving;
    try {
      const first = await messages.next();
      if (!abort.signal.aborted) await sendByTransfer(serving, resumed(first, messages));
    } catch (error) {
      if (!abort.signal.aborted) refuse(seq, error); // V2
      abort.abort();
    } finally {
      await messages.return(undefined);
    }
  };

  const serve = async (serving: Serving, method: ServedMethod, head: CallHead, body: FrameBody): Promise<void> => {
    const caller: ServedCaller = { head, peer, signal: serving.abort.signal };
    const request = head.byTransfer
      ? await oneMessage(transfers.receive(fields.question, serving.seq, serving.abort.signal))
      : body.bytes;
    if (method.streams) await stream(serving, method.answers(request, caller));
    else await answer(serving, await method.answer(request, caller));
  };

  const begin = async (serving: Serving, method: ServedMethod, head: CallHead, body: FrameBody): Promise<void> => {
    try {
      await serve(serving, method, head, body);
    } catch (error) {
      if (!serving.abort.signal.aborted) refuse(serving.seq, error); // V2
    } finally {
      open.delete(serving.seq); // V3
      if (over && open.size === 0) endNow();
    }
  };

  return {
    called(head, body) {
      const seq = seqOf(head);
      if (open.has(seq)) throw new Error(`call ${seq} is asked a second time while it is under way`); // V1
      if (queue.count() >= maxUnread) throw new Error(`${queue.count()} frames wait for it, and it asks on`); // V4
      const method = body === undefined ? undefined : methods.find(fields.pathOf(body.field) ?? "");
      if (body === undefined || method === undefined) refuse(seq, methodUnknown(`the method of call ${seq}`));
      else if (open.size >= maxOpen || queue.isFull())
        refuse(seq, callsRefused(open.size)); // V4
      else {
        const serving = { seq, field: body.field, abort: new AbortController() };
        open.set(seq, serving);
        void begin(serving, method, head, body);
      }
    },
    cancelled: (seq) => open.get(seq)?.abort.abort(), // V2
    count: () => open.size,
    end() {
      if (over) return;
      over = true;
      for (const { abort } of open.values()) abort.abort();
      if (open.size === 0) endNow();
    },
    ended,
  };
}

const headOf = (seq: number, told: Partial<AnswerHead> = {}): AnswerHead => ({
  seq: BigInt(seq),
  byTransfer: false,
  failure: nothing,
  ...told,
});

async function* only(message: MessagePieces): AsyncGenerator<MessagePieces> {
  yield message;
}

async function* resumed(
  first: IteratorResult<MessagePieces>,
  rest: AsyncGenerator<MessagePieces>,
): AsyncGenerator<MessagePieces> {
  if (first.done) return;
  yield first.value;
  yield* rest;
}

async function oneMessage(messages: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  let one: Uint8Array | undefined;
  for await (const message of messages) {
    if (one !== undefined) throw transferCut("it holds more than one message");
    one = message;
  }
  if (one === undefined) throw transferCut("it holds no message");
  return one;
}
