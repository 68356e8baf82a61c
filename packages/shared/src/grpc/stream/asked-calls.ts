/**
 * The calls that one side asks on a stream, and the channel that they are asked through.
 *
 * A1 Every call ends once: answered, given up or lost with the stream. A2 An answer to what nobody waits for changes nothing.
 * A3 A number is given once.
 */

import type { AnswerHead } from "../../gen/holdfast/internal/v1/controller_link.ts";
import { createCallChannel } from "../call-channel.ts";
import type { GrpcChannel } from "../client.ts";
import { type CallLine, createAskedCall, type OpenCall } from "./asked-call.ts";
import { bodyFieldsOf, type StreamSide } from "./body-fields.ts";
import type { BodyTransfers } from "./body-transfers.ts";
import { type FrameBody, seqOf } from "./frames.ts";
import type { SendQueue } from "./send-queue.ts";

export interface AskedCallsOptions {
  readonly side: StreamSide;
  readonly peer: string;
  readonly queue: SendQueue;
  readonly transfers: BodyTransfers;
  readonly maxOpen: number;
}

export interface AskedCalls {
  readonly channel: GrpcChannel;
  answered(head: AnswerHead, body: FrameBody | undefined): void;
  count(): number;
  end(why: string): void;
}

export function createAskedCalls({ side, peer, queue, transfers, maxOpen }: AskedCallsOptions): AskedCalls {
  const open = new Map<number, OpenCall>();
  const fields = bodyFieldsOf[side];
  let last = 0;
  let over: string | undefined;

  const line: CallLine = {
    peer,
    queue,
    transfers,
    bodies: fields,
    over: () => over,
    enter(call) {
      if (open.size >= maxOpen) return undefined;
      last += 1; // A3
      open.set(last, call);
      return last;
    },
    leave: (seq) => open.delete(seq),
  };

  return {
    channel: createCallChannel(peer, (path, number) =>
      createAskedCall({ line, path, field: fields.fieldOf(path), number }),
    ),
    answered: (head, body) => open.get(seqOf(head))?.answered(head, body), // A2
    count: () => open.size,
    end(why) {
      over ??= why;
      for (const call of [...open.values()]) call.lost(why); // A1
    },
  };
}
