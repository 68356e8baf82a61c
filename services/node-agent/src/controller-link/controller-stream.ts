/**
 * One stream to one controller, over a connection of its own: both sides make calls over it. The agent dials, and says hello first.
 *
 * Stream-1 The reader takes each frame at once and waits for nothing: an order that hangs delays no other frame.
 * Stream-2 A connection whose other end is gone ends by keepalive, within 15 seconds.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createPace } from "@holdfast/shared/async/pace";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  AgentLinkServiceDefinition,
  Hello,
  Reconnect,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import {
  createGrpcChannel,
  createGrpcClient,
  type GrpcChannelOptions,
  type GrpcClient,
} from "@holdfast/shared/grpc/client";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import type { ServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { createStreamCalls } from "@holdfast/shared/grpc/stream/stream-calls";
import { transferBytesPerSecond } from "@holdfast/shared/grpc/stream/transfer-chunks";
import { createTransferOpener } from "@holdfast/shared/grpc/stream/transfer-opener";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ControllerAddress } from "./controller-addresses.ts";

export interface ControllerStream {
  readonly client: GrpcClient<typeof AgentLinkServiceDefinition>;
  /** No call of either side is under way, and nothing waits to be sent. */
  readonly idle: () => boolean;
  /** Resolves with the reason when the stream has ended. An order that hangs may go on: it holds up no other stream. */
  readonly ended: Promise<unknown>;
  /** Resolves when it has ended. */
  end(why: string): Promise<void>;
}

export type OpenControllerStream = (
  address: ControllerAddress,
  onReconnect: (wanted: { readonly jitterMs: number; readonly reason: string }) => void,
) => ControllerStream;

export interface ControllerStreamOptions {
  readonly node: string;
  /** Random, of this process. */
  readonly instance: string;
  readonly served: ServedMethods;
  /** http://host:port; undefined: none, whatever the environment says. */
  readonly proxy: string | undefined;
  /** What the agent shows to controllers at TCP addresses; undefined: no TLS. */
  readonly credentials?: GrpcChannelOptions["credentials"];
  readonly keepalive?: { readonly timeMs: number; readonly timeoutMs: number };
  readonly newId: () => string;
  readonly clock: Clock;
  readonly log: Logger;
}

const standardKeepalive = { timeMs: 10_000, timeoutMs: 5_000 };
const transfersAtOnce = 4;
/** How long the controller may take to end its side after the agent has ended its own. */
const farewellMs = 1_000;

export function createControllerStreams(options: ControllerStreamOptions): OpenControllerStream {
  const { node, instance, served, proxy, credentials, keepalive = standardKeepalive, newId, clock, log } = options;
  const pace = createPace({ clock, perSecond: transferBytesPerSecond });
  const identity: Identity = { role: "node", name: node };

  return (address, onReconnect) => {
    const stream = newId();
    const channel = createGrpcChannel(address.target, {
      ownConnection: true,
      keepalive,
      proxy: proxy ?? "none",
      credentials,
    });
    const wire = createGrpcClient(ServeWireDefinition, channel, { log, identity });
    const life = new AbortController();
    const calls = createStreamCalls({
      side: "agent",
      peer: `the controller at ${address.name}`,
      served,
      transfers: createTransferOpener({
        open: (chunks, signal) => wire.transfer(chunks, { signal }),
        node,
        stream,
        limit: transfersAtOnce,
        pace,
      }),
      onNotice(bytes) {
        const { jitterMs, reason } = Reconnect.decode(bytes);
        onReconnect({ jitterMs, reason });
      },
    });
    calls.notify(Hello.encode(Hello.fromPartial({ node, instance, stream })).finish());

    const pump = async (): Promise<unknown> => {
      try {
        for await (const frame of wire.serve(calls.frames, { signal: life.signal })) calls.take(frame); // Stream-1
        return endedByController(address);
      } catch (error) {
        return error;
      }
    };
    const ended = pump().then((why) => {
      calls.end(why instanceof Error ? why.message : String(why));
      channel.close();
      return why;
    });

    return {
      client: createGrpcClient(AgentLinkServiceDefinition, calls.channel, { log, identity }),
      idle: calls.idle,
      ended,
      async end(why) {
        // What was handed over before goes out first: the agent's side is closed, and the controller closes its own.
        calls.end(why);
        const cancel = clock.timer(farewellMs, () => life.abort(new DOMException(why, "AbortError")));
        await ended;
        cancel();
      },
    };
  };
}

const endedByController = ({ name }: ControllerAddress): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STREAM_ENDED",
    message: `the controller at ${name} ended the stream; it is opened again`,
  });
