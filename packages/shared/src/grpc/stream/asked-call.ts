/**
 * One call that is asked over a stream, in the shape that grpc-js wants of a channel's calls.
 *
 * M1 Its end is told once, after every message that came before it. M2 A message is handed over only when it was asked for; one more is
 * waited for, and the sender is held back. M3 An end of our own is never told from within the call that brings it about. M4 A call given
 * up is taken out of the queue if it is there still; otherwise the peer is told once.
 */
import { type Channel, Status } from "nice-grpc";
import type { AnswerHead, CallHead, TransferBody } from "../../gen/holdfast/internal/v1/controller_link.ts";
import { type CallEnd, endOf } from "../link/call-end.ts";
import { pluginMaxMessageBytes } from "../message-limits.ts";
import type { BodyTransfers } from "./body-transfers.ts";
import { headOf } from "./call-head.ts";
import { callFrame, cancelFrame, type FrameBody, seqOf } from "./frames.ts";
import type { MessagePieces } from "./message-pieces.ts";
import type { QueuedFrame, SendQueue } from "./send-queue.ts";
import { maxFrameBytes } from "./serve-wire.ts";
import { messageTooLarge, notSent, queueFull, streamEnded } from "./stream-errors.ts";
import { endOfError, endOfStatus } from "./wire-status.ts";

export type WireCall = ReturnType<Channel["createCall"]>;
type Metadata = Parameters<WireCall["start"]>[0];
type Listener = Parameters<WireCall["start"]>[1];

/** What a call knows of its stream. */
export interface CallLine {
  readonly peer: string;
  readonly queue: Pick<SendQueue, "push" | "pushAlways" | "remove">;
  readonly transfers: BodyTransfers;
  readonly bodies: { readonly question: TransferBody; readonly answer: TransferBody };
  /** Why it has ended; undefined while it has not. */
  over(): string | undefined;
  /** Undefined: no more may be under way. */
  enter(call: OpenCall): number | undefined;
  leave(seq: number): void;
}

export interface OpenCall {
  answered(head: AnswerHead, body: FrameBody | undefined): void;
  /** The stream ends. */
  lost(why: string): void;
}

export interface AskedCallOptions {
  readonly line: CallLine;
  readonly path: string;
  /** Of its bodies; undefined for a method that is not asked over this stream. */
  readonly field: number | undefined;
  readonly number: number;
}

export function createAskedCall({ line, path, field, number }: AskedCallOptions): WireCall {
  const { peer, queue, transfers, bodies } = line;
  let head: ReturnType<typeof headOf> | undefined;
  let listener: Listener | undefined;
  let asked = false;
  /** Who asks before anything is sent wants one message, and never asks again. */
  let single: boolean | undefined;
  let waiting: Uint8Array | undefined;
  let onHandedOver: (() => void) | undefined;
  let end: CallEnd | undefined;
  let told = false;
  let seq: number | undefined;
  /** As long as it waits there. */
  let queued: QueuedFrame | undefined;
  let sent = false;
  /** Of the transfers of its bodies. */
  let transfer: AbortController | undefined;
  let reading = false;

  /** M1, M2. Whoever is handed a message may ask for the next one before it returns. */
  const handOver = (): void => {
    while (asked && waiting !== undefined && !told) {
      const message = waiting;
      waiting = undefined;
      asked = false;
      listener?.onReceiveMessage(asBuffer(message));
    }
    if (waiting !== undefined) return;
    onHandedOver?.();
    if (end === undefined || told) return;
    told = true;
    listener?.onReceiveStatus(end);
  };

  const settle = (found: CallEnd): void => {
    end = found;
    if (seq !== undefined) line.leave(seq);
    transfer?.abort();
  };
  const finish = (found: CallEnd): void => {
    if (end !== undefined) return;
    settle(found);
    handOver();
  };
  /** M3, M4 */
  const give = (up: CallEnd): void => {
    if (told) return;
    const open = end === undefined;
    if (open && queued !== undefined) queue.remove(queued);
    else if (open && sent && seq !== undefined) queue.pushAlways({ bytes: cancelFrame(seq) });
    waiting = undefined;
    settle(up);
    queueMicrotask(handOver);
  };
  const refuse = (error: unknown): void => give(endOfError(error));

  /** M2 */
  const read = async (messages: AsyncIterable<Uint8Array>): Promise<void> => {
    try {
      for await (const message of messages) {
        if (end !== undefined) return;
        waiting = message;
        handOver();
        if (waiting === undefined) continue;
        if (single === true) {
          give(endOf(Status.INTERNAL, `${peer} sent more than one message`));
          return;
        }
        await new Promise<void>((resolve) => {
          onHandedOver = resolve;
        });
        onHandedOver = undefined;
      }
      finish(endOf(Status.OK, ""));
    } catch (error) {
      finish(endOfError(error));
    }
  };

  const call: OpenCall = {
    answered(answer, body) {
      if (end !== undefined) return;
      if (answer.failure.length > 0) finish(endOfStatus(answer.failure));
      else if (reading) return;
      else if (body?.field !== field) give(endOf(Status.INTERNAL, `${peer} answered ${path} with another body`));
      else if (answer.byTransfer) {
        reading = true;
        transfer ??= new AbortController();
        void read(transfers.receive(bodies.answer, Number(answer.seq), transfer.signal));
      } else {
        waiting = body?.bytes;
        finish(endOf(Status.OK, ""));
      }
    },
    lost(why) {
      if (end !== undefined) return;
      const unseen = queued !== undefined;
      if (queued !== undefined) queue.remove(queued);
      settle(endOfError(unseen ? notSent(peer, why) : streamEnded(peer, why)));
      waiting = undefined;
      queueMicrotask(handOver);
    },
  };

  const sendByTransfer = (message: Uint8Array, as: number): void => {
    transfer = new AbortController();
    transfers.send(bodies.question, as, only(message), transfer.signal).catch((error: unknown) => {
      if (end === undefined) refuse(error);
    });
  };

  const enqueue = (told: CallHead, field: number, message: Uint8Array): boolean => {
    const whole = message.length < maxFrameBytes ? callFrame(told, { field, bytes: message }) : undefined;
    const direct = whole !== undefined && whole.length <= maxFrameBytes;
    const frame: QueuedFrame = {
      bytes: direct ? whole : callFrame({ ...told, byTransfer: true }, { field, bytes: nothing }),
      onTaken() {
        queued = undefined;
        sent = true;
        if (!direct) sendByTransfer(message, seqOf(told));
      },
    };
    queued = frame;
    return queue.push(frame);
  };

  const send = (message: Uint8Array): void => {
    const over = line.over();
    if (head === undefined || field === undefined || seq !== undefined) return;
    if (over !== undefined) refuse(notSent(peer, over));
    else if (message.length > pluginMaxMessageBytes)
      refuse(messageTooLarge(`the request of ${path}`, pluginMaxMessageBytes));
    else {
      seq = line.enter(call);
      if (seq === undefined || !enqueue({ ...head, seq: BigInt(seq), byTransfer: false }, field, message))
        refuse(queueFull(peer));
    }
  };

  return {
    start(metadata: Metadata, whoever: Listener) {
      listener = whoever;
      if (field === undefined) give(endOf(Status.UNIMPLEMENTED, `${path} is not asked over a stream`));
      try {
        head = headOf(metadata);
      } catch (error) {
        give(endOf(Status.INTERNAL, `${path}: ${error instanceof Error ? error.message : String(error)}`));
      }
    },
    sendMessageWithContext({ callback }, message) {
      single ??= asked;
      if (end === undefined) send(message);
      if (callback !== undefined) queueMicrotask(callback);
    },
    startRead() {
      asked = true;
      if (waiting !== undefined) handOver();
    },
    // The question is one message, and has gone with it.
    halfClose: () => undefined,
    cancelWithStatus: (code, details) => give(endOf(code, details)),
    getPeer: () => peer,
    getCallNumber: () => number,
    // Credentials of single calls are not used; who calls is told by metadata.
    setCredentials: () => undefined,
    getAuthContext: () => null,
  };
}

const nothing = new Uint8Array(0);

async function* only(message: Uint8Array): AsyncGenerator<MessagePieces> {
  yield [message];
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
