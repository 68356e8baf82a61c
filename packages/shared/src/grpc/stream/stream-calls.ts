/**
 * Ordinary calls in both directions over one stream between an agent and a controller. Whoever holds the stream gives `frames` to it,
 * hands what comes to take(), and says when it has ended.
 *
 * T1 take() dispatches and waits for nothing: one slow call holds up no other. T2 After end() nothing of this stream is left: asked calls
 * have failed, served ones are aborted, and whoever waits for the next frame is woken.
 */
import { isHoldfastError } from "../../errors/holdfast-error.ts";
import type { GrpcChannel } from "../client.ts";
import { createAskedCalls } from "./asked-calls.ts";
import type { StreamSide } from "./body-fields.ts";
import type { BodyTransfers } from "./body-transfers.ts";
import { type Frame, noticeFrame, readFrame } from "./frames.ts";
import { createSendQueue } from "./send-queue.ts";
import { createServedCalls } from "./served-calls.ts";
import type { ServedMethods } from "./served-methods.ts";
import { frameMalformed } from "./stream-errors.ts";

export interface StreamCallsOptions {
  /** Which frames it writes. */
  readonly side: StreamSide;
  /** For messages: "the agent of node n1", "the controller at 10.0.0.1:7602". */
  readonly peer: string;
  readonly served: ServedMethods;
  readonly transfers: BodyTransfers;
  /** The body of frame field 4: Hello at the controller, Reconnect at the agent. */
  readonly onNotice: (bytes: Uint8Array) => void;
}

export interface StreamCalls {
  /** A call that certainly never left fails with NOT_SENT, one that may have with STREAM_ENDED. */
  readonly channel: GrpcChannel;
  /** What is to be sent. Ends after end(). */
  readonly frames: AsyncIterable<Uint8Array>;
  /** Throws a HoldfastError for what cannot be read: the stream has to end then. */
  take(frame: Uint8Array): void;
  notify(bytes: Uint8Array): void;
  /** No call asked or served is under way, and nothing waits to be sent. */
  idle(): boolean;
  load(): { readonly asked: number; readonly served: number; readonly queuedBytes: number };
  end(why: string): void;
  /** After end(), when every handler has ended. */
  readonly ended: Promise<void>;
}

const maxQueuedBytes = 8 * 1024 * 1024;
const maxQueuedFrames = 8192;
/** Of one peer; more wait at the peer. */
const maxServed = 1024;

export function createStreamCalls({
  side,
  peer,
  served: methods,
  transfers,
  onNotice,
}: StreamCallsOptions): StreamCalls {
  const queue = createSendQueue({ maxBytes: maxQueuedBytes, maxFrames: maxQueuedFrames });
  const asked = createAskedCalls({ side, peer, queue, transfers, maxOpen: maxQueuedFrames });
  const served = createServedCalls({
    side,
    peer,
    queue,
    transfers,
    methods,
    maxOpen: maxServed,
    maxUnread: 2 * maxQueuedFrames,
  });
  let over = false;

  const dispatch = (frame: Frame): void => {
    if (frame.kind === "call") served.called(frame.head, frame.body);
    else if (frame.kind === "cancel") served.cancelled(frame.seq);
    else if (frame.kind === "answer") asked.answered(frame.head, frame.body);
    else onNotice(frame.bytes);
  };

  return {
    channel: asked.channel,
    frames: queue.frames,
    take(bytes) {
      if (over) return;
      try {
        dispatch(readFrame(bytes)); // T1
      } catch (error) {
        throw isHoldfastError(error) ? error : frameMalformed(peer, error);
      }
    },
    notify: (bytes) => queue.pushAlways({ bytes: noticeFrame(bytes) }),
    idle: () => asked.count() === 0 && served.count() === 0 && queue.count() === 0,
    load: () => ({ asked: asked.count(), served: served.count(), queuedBytes: queue.bytes() }),
    end(why) {
      over = true;
      asked.end(why); // T2
      served.end();
      queue.end();
    },
    ended: served.ended,
  };
}
