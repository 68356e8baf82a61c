/**
 * One connection to one incarnation of a plugin. It is never re-dialled by itself: when it is lost, whoever holds it opens
 * another one and reads again who is there.
 *
 * K1 At most `maxInFlight` calls at once: past about a hundred on one channel some starve for seconds, so the rest is refused.
 * K2 Every call ends by its deadline, whatever the plugin does: an oversized status message would otherwise hang it for ever.
 * K3 No keepalive: a plugin busy for 40 s with one mount would drop the connection for "too many pings".
 * K4 What was connected once and is lost stays lost: left to itself, the library would dial again and hand the next call to
 *    a plugin that nobody has asked who it is.
 * K5 A retired channel takes no new call and lets those in flight end by themselves: their answers are still the truth.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { type LinkedSignal, linkSignals } from "@holdfast/shared/async/signals";
import { formatAddress } from "@holdfast/shared/grpc/listen-address";
import { type Channel, type ChannelOptions, ClientError, createChannel, createClient, Metadata } from "nice-grpc";
import type { StreamMethod, UnaryMethod } from "./methods.ts";
import { type Code, codeOf } from "./outcome.ts";
import { rawStreams, rawUnaries } from "./raw-definitions.ts";
import type { CsiTransport, WireFailure, WireOptions, WireReply } from "./transport.ts";

const maxMessageBytes = 16 * 1024 * 1024;
const defaultMaxInFlight = 64;

/** gRPC's connectivity states, by the numbers of its specification. */
const READY = 2;
const TRANSIENT_FAILURE = 3;
const SHUTDOWN = 4;

const channelOptions: ChannelOptions = {
  "grpc.max_receive_message_length": maxMessageBytes,
  "grpc.max_send_message_length": maxMessageBytes,
  // Two channels to one path must be two connections: after a hang, or a replaced socket, the old one is of no use.
  "grpc.use_local_subchannel_pool": 1,
  // Mutating calls are never repeated below the reconciler, not even by the library.
  "grpc.enable_retries": 0,
  "grpc.service_config_disable_resolution": 1,
  "grpc.enable_http_proxy": 0,
  "grpc.enable_channelz": 0,
  // An idle plugin is no lost plugin. (K3: nothing about keepalive here.)
  "grpc.client_idle_timeout_ms": 2 ** 31 - 1,
};

export interface PluginChannel extends CsiTransport {
  /** True once connected; false when nobody listens, or not within the time. */
  connect(timeoutMs: number): Promise<boolean>;
  /** Aborted as soon as the established connection is gone. */
  readonly lost: AbortSignal;
  inFlight(): number;
  /** Rises with every answer of the plugin, whatever it says: it lives. */
  answered(): number;
  /** K5 */
  retire(): void;
  /** Ends everything now; calls in flight end as unknown. */
  close(): void;
}

export function openPluginChannel(options: {
  readonly socketPath: string;
  readonly clock: Clock;
  readonly maxInFlight?: number;
}): PluginChannel {
  const { socketPath, clock, maxInFlight = defaultMaxInFlight } = options;
  const channel = createChannel(formatAddress({ kind: "unix", path: socketPath }), undefined, channelOptions);
  const unaries = createClient(rawUnaries, channel);
  const streams = createClient(rawStreams, channel);
  const lost = new AbortController();
  /** Ended by `close`. One set for all of them: on and off a signal takes longer. */
  const running = new Set<LinkedSignal>();
  let answered = 0;
  let retired = false;

  const shut = (): void => {
    if (channel.getConnectivityState(false) !== SHUTDOWN) channel.close();
  };

  const begin = (signal: AbortSignal): LinkedSignal => {
    const call = linkSignals(signal);
    running.add(call);
    return call;
  };
  const end = (call: LinkedSignal): void => {
    call.dispose();
    running.delete(call);
  };

  const refusal = (signal: AbortSignal): WireFailure | undefined => {
    if (signal.aborted) return unsent("CANCELLED", "given up before it was sent");
    if (retired || lost.signal.aborted) return unsent("UNAVAILABLE", "the connection to the plugin is gone");
    // K1
    const { size } = running;
    if (size >= maxInFlight)
      return unsent("RESOURCE_EXHAUSTED", `${size} calls to this plugin are in flight already; try again later`);
    return undefined;
  };

  return {
    lost: lost.signal,
    inFlight: () => running.size,
    answered: () => answered,
    connect: (timeoutMs) =>
      connect(channel, clock, timeoutMs, () => {
        lost.abort(new DOMException("the plugin closed the connection", "AbortError"));
        shut(); // K4
      }),
    retire() {
      retired = true;
      shut(); // K5: gRPC closes a channel gracefully, streams that are open run to their end.
    },
    close() {
      retired = true;
      for (const call of [...running]) call.abort(new DOMException("the connection was closed", "AbortError"));
      shut();
    },

    async unary(method: UnaryMethod, request: Uint8Array, { signal, deadlineMs, metadata }: WireOptions) {
      const refused = refusal(signal);
      if (refused) return { failure: refused };
      const ended = begin(signal);
      let late = false;
      const stopTimer = clock.timer(deadlineMs, () => {
        late = true;
        ended.abort(new DOMException("deadline", "TimeoutError")); // K2
      });
      try {
        const headers = Metadata({ ...metadata, "grpc-timeout": timeoutHeader(deadlineMs) });
        const bytes = await unaries[method](request, { signal: ended.signal, metadata: headers });
        answered += 1;
        return { bytes };
      } catch (error) {
        // Of the codes that the library makes up by itself, none says that the plugin lives.
        if (error instanceof ClientError && !ofTheLibrary.has(codeOf(error.code))) answered += 1;
        return { failure: failureOf(error, late ? deadlineMs : undefined) };
      } finally {
        stopTimer();
        end(ended);
      }
    },

    async *stream(method: StreamMethod, request: Uint8Array, { signal, deadlineMs, totalMs, metadata }: WireOptions) {
      const refused = refusal(signal);
      if (refused) {
        yield { failure: refused };
        return;
      }
      const ended = begin(signal);
      let lateAfter: number | undefined;
      const startTimer = (afterMs: number) =>
        clock.timer(afterMs, () => {
          lateAfter = afterMs;
          ended.abort(new DOMException("deadline", "TimeoutError")); // K2
        });
      const stopTotal = totalMs === undefined ? () => undefined : startTimer(totalMs);
      const told = totalMs === undefined ? {} : { "grpc-timeout": timeoutHeader(totalMs) };
      // Between messages only, and never while our own side is the slow one; so the plugin is not told of it.
      let stopTimer = startTimer(deadlineMs);
      try {
        const headers = Metadata({ ...metadata, ...told });
        const replies = streams[method](request, { signal: ended.signal, metadata: headers });
        for await (const bytes of replies) {
          stopTimer();
          answered += 1;
          yield { bytes } satisfies WireReply;
          stopTimer = startTimer(deadlineMs);
        }
      } catch (error) {
        yield { failure: failureOf(error, lateAfter) };
      } finally {
        stopTimer();
        stopTotal();
        end(ended);
      }
    },
  };
}

/** Watches from the first contact on, so that a plugin that goes away is noticed without any call being made. */
function connect(channel: Channel, clock: Clock, timeoutMs: number, onLost: () => void): Promise<boolean> {
  return new Promise((resolve) => {
    const stopTimer = clock.timer(timeoutMs, () => resolve(false));
    const settle = (connected: boolean): void => {
      stopTimer();
      resolve(connected);
    };
    const look = (): void => {
      const state = channel.getConnectivityState(true);
      if (state === READY) {
        channel.watchConnectivityState(READY, Number.POSITIVE_INFINITY, onLost);
        settle(true);
      } else if (state === TRANSIENT_FAILURE || state === SHUTDOWN) {
        settle(false);
      } else {
        channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, look);
      }
    };
    look();
  });
}

const ofTheLibrary: ReadonlySet<Code> = new Set([
  "CANCELLED",
  "DEADLINE_EXCEEDED",
  "UNAVAILABLE",
  "UNKNOWN",
  "INTERNAL",
]);

/** Eight digits at most, says the protocol; and 0 would mean "already over". */
function timeoutHeader(deadlineMs: number): string {
  return `${Math.min(Math.max(1, Math.ceil(deadlineMs)), 99_999_999)}m`;
}

function unsent(code: WireFailure["code"], message: string): WireFailure {
  return { code, message, sent: false };
}

function failureOf(error: unknown, lateAfterMs: number | undefined): WireFailure {
  if (lateAfterMs !== undefined)
    return {
      code: "DEADLINE_EXCEEDED",
      message: `no answer within ${lateAfterMs} ms; the work may still be going on`,
      sent: true,
    };
  if (error instanceof ClientError) return { code: codeOf(error.code), message: error.details, sent: true };
  if (error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError"))
    return { code: "CANCELLED", message: "given up while in flight; the work may still be going on", sent: true };
  return { code: "UNKNOWN", message: `transport error: ${String(error)}`, sent: true };
}
