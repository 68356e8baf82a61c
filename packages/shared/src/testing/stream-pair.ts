/** The two ends of a stream, joined in memory: frames can be watched, held back, dropped, and the stream cut at any of them. */
import { type Clock, systemClock } from "../async/clock.ts";
import { linkSignals } from "../async/signals.ts";
import type { TransferChunk } from "../gen/holdfast/internal/v1/controller_link.ts";
import type { ServedMethods } from "../grpc/stream/served-methods.ts";
import { createStreamCalls, type StreamCalls } from "../grpc/stream/stream-calls.ts";
import { createTransferMeeting } from "../grpc/stream/transfer-meeting.ts";
import { createTransferOpener } from "../grpc/stream/transfer-opener.ts";
import { unpaced } from "./unpaced.ts";

export interface StreamPairOptions {
  /** What the agent serves, and what the controller does. */
  readonly agent: ServedMethods;
  readonly controller: ServedMethods;
  readonly onHello?: (bytes: Uint8Array) => void;
  readonly onReconnect?: (bytes: Uint8Array) => void;
  readonly clock?: Pick<Clock, "timer">;
  readonly patienceMs?: number;
  readonly maxTransfers?: number;
  /** Of each chunk of a transfer, either way, before it is handed on. */
  readonly onChunk?: (chunk: TransferChunk) => Promise<void> | void;
}

export interface StreamPair {
  readonly agent: StreamCalls;
  readonly controller: StreamCalls;
  readonly toAgent: StreamWire;
  readonly toController: StreamWire;
  /** How many transfers are open, and the most there were at once. */
  transfers(): { readonly open: number; readonly most: number };
  /** As a connection that is lost: nothing arrives any more. */
  cut(why?: string): void;
}

export interface StreamWire {
  /** What went over it, in order. */
  readonly frames: readonly Uint8Array[];
  /** Takes nothing more from the queue of who sends, but for one frame where it waits for the next already; that one does not arrive. */
  hold(): void;
  release(): void;
  /** Asked of each frame that was taken, before it arrives. */
  onFrame: (frame: Uint8Array) => "deliver" | "drop" | "cut";
  /** What take() threw. */
  thrown(): unknown;
}

export function createStreamPair(options: StreamPairOptions): StreamPair {
  const { clock = systemClock, patienceMs = 10_000, maxTransfers = 4, onChunk } = options;
  const gone = new AbortController();
  const meeting = createTransferMeeting({ clock, patienceMs, pace: unpaced });
  let openTransfers = 0;
  let mostTransfers = 0;

  async function* watched(chunks: AsyncIterable<TransferChunk>): AsyncGenerator<TransferChunk, undefined> {
    for await (const chunk of chunks) {
      await onChunk?.(chunk);
      yield chunk;
    }
  }
  async function* open(chunks: AsyncIterable<TransferChunk>, signal: AbortSignal): AsyncGenerator<TransferChunk> {
    const both = linkSignals(signal, gone.signal);
    openTransfers += 1;
    mostTransfers = Math.max(mostTransfers, openTransfers);
    try {
      const request = watched(chunks);
      const first = (await request.next()).value?.open;
      if (first === undefined) throw new Error("the first chunk of a transfer does not name it");
      yield* watched(meeting.arrived(first, request, both.signal));
    } finally {
      openTransfers -= 1;
      both.dispose();
    }
  }

  const agent = createStreamCalls({
    side: "agent",
    peer: "the controller at test",
    served: options.agent,
    transfers: createTransferOpener({ open, node: "n1", stream: "s1", limit: maxTransfers, pace: unpaced }),
    onNotice: options.onReconnect ?? (() => undefined),
  });
  const controller = createStreamCalls({
    side: "controller",
    peer: "the agent of node n1",
    served: options.controller,
    transfers: meeting.bodies,
    onNotice: options.onHello ?? (() => undefined),
  });

  const cut = (why = "the connection was lost"): void => {
    if (gone.signal.aborted) return;
    gone.abort(new Error(why));
    agent.end(why);
    controller.end(why);
    meeting.end();
  };
  const join = (from: StreamCalls, to: StreamCalls): StreamWire => {
    const frames: Uint8Array[] = [];
    let held: PromiseWithResolvers<void> | undefined;
    const released = async (): Promise<void> => {
      while (held !== undefined) await held.promise;
    };
    let thrown: unknown;
    const wire: StreamWire = {
      frames,
      hold() {
        held ??= Promise.withResolvers<void>();
      },
      release() {
        held?.resolve();
        held = undefined;
      },
      onFrame: () => "deliver",
      thrown: () => thrown,
    };
    const deliver = (frame: Uint8Array): void => {
      frames.push(frame);
      const what = wire.onFrame(frame);
      if (what === "drop" || gone.signal.aborted) return;
      try {
        if (what === "cut") cut();
        else to.take(frame);
      } catch (error) {
        thrown = error;
        cut(String(error));
      }
    };
    const pump = async (): Promise<void> => {
      const iterator = from.frames[Symbol.asyncIterator]();
      for (;;) {
        // The turn of the event loop that a socket takes; it also lets hold() come before the next frame.
        await new Promise<void>((resolve) => setImmediate(resolve));
        await released();
        const step = await iterator.next();
        if (step.done) return;
        await released();
        deliver(step.value);
      }
    };
    void pump();
    return wire;
  };

  return {
    agent,
    controller,
    toAgent: join(controller, agent),
    toController: join(agent, controller),
    transfers: () => ({ open: openTransfers, most: mostTransfers }),
    cut,
  };
}
