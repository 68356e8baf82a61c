/**
 * One connection to one incarnation of a plugin. It is never re-dialled: when it is lost, whoever holds it opens another one and
 * reads again who is there.
 *
 * K1 At most `maxInFlight` calls at once that a caller waits for: past about a hundred on one channel some starve for seconds, so the
 * rest is refused. A call that hangs keeps out no other once its caller has gone, and Probe is never refused: the plugin would pass for ill.
 * K2 Every call that has a deadline ends by it, whatever the plugin does: an oversized status message would otherwise hang it for ever.
 * K3 No keepalive: a plugin busy for 40 s with one mount would drop the connection for "too many pings".
 * K4 What was connected once and is lost stays lost: who listens there next is a plugin that nobody has asked who it is. A question whose
 *    connection broke is asked again at the successor, once that one was asked.
 * K5 A retired channel takes no new call and lets those in flight end by themselves: their answers are still the truth.
 */
import { createConnection } from "node:net";
import type { Clock } from "@holdfast/shared/async/clock";
import { type LinkedSignal, linkSignals } from "@holdfast/shared/async/signals";
import { withoutStack } from "@holdfast/shared/errors/without-stack";
import { notToldKey } from "@holdfast/shared/grpc/link/call-end";
import { type Link, openLink } from "@holdfast/shared/grpc/link/link";
import { createLinkChannel } from "@holdfast/shared/grpc/link/link-channel";
import { ClientError, createClient, Metadata } from "nice-grpc";
import type { CsiMethod, StreamMethod, UnaryMethod } from "./methods.ts";
import { type Code, codeOf } from "./outcome.ts";
import { createPluginClient, questionRetry, timeoutHeader } from "./plugin-client.ts";
import { rawStreams, rawUnaries } from "./raw-definitions.ts";
import type { CsiTransport, WireFailure, WireOptions, WireReply } from "./transport.ts";

const maxMessageBytes = 16 * 1024 * 1024;
const defaultMaxInFlight = 64;

export interface PluginChannel extends CsiTransport {
  /** True once connected; false when nobody listens, or not within the time. */
  connect(timeoutMs: number): Promise<boolean>;
  /** Aborted as soon as the established connection is gone. */
  readonly lost: AbortSignal;
  /** The connection itself is gone, and with it the answers to its calls. */
  isGone(): boolean;
  /** What its calls go over; undefined when it is gone. */
  link(): Link | undefined;
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
  /** Resolves with the link of the plugin's next connection once that one may be asked; without it a lost connection ends each call. */
  readonly successor?: (() => Promise<Link>) | undefined;
}): PluginChannel {
  const { socketPath, clock, maxInFlight = defaultMaxInFlight, successor } = options;
  let link: Link | undefined;
  const over = (dialled: () => Link | Promise<Link> | undefined) =>
    createLinkChannel({
      link: dialled,
      target: `unix://${socketPath}`,
      authority: "localhost",
      maxMessageBytes,
      close: () => link?.close(),
    });
  const channel = over(() => link);
  /** K4: what changes something never goes to a successor, and is never sent again. */
  const changes = createClient(rawUnaries, channel);
  const questions = createPluginClient(over(() => (link?.isOpen() === false ? (successor?.() ?? link) : link)));
  const streams = createClient(rawStreams, channel);
  const lost = new AbortController();
  /** Ended by `close`. One set for all of them: on and off a signal takes longer. */
  const running = new Set<LinkedSignal>();
  /** K1 */
  const awaited = new Set<LinkedSignal>();
  let answered = 0;
  let retired = false;

  const begin = (signal: AbortSignal, left?: AbortSignal): LinkedSignal => {
    const call = linkSignals(signal);
    running.add(call);
    awaited.add(call);
    left?.addEventListener("abort", () => awaited.delete(call), { once: true });
    return call;
  };
  const end = (call: LinkedSignal): void => {
    call.dispose();
    running.delete(call);
    awaited.delete(call);
  };

  const refusal = (method: CsiMethod, signal: AbortSignal): WireFailure | undefined => {
    if (signal.aborted) return unsent("CANCELLED", "given up before it was sent");
    if (retired || link?.isOpen() !== true) return unsent("UNAVAILABLE", "the connection to the plugin is gone");
    // K1
    const { size } = awaited;
    if (size >= maxInFlight && method !== "Probe")
      return unsent("RESOURCE_EXHAUSTED", `${size} calls to this plugin are in flight already; try again later`);
    return undefined;
  };

  return {
    lost: lost.signal,
    isGone: () => link?.isGone() === true,
    link: () => (link?.isOpen() === true && !retired ? link : undefined),
    inFlight: () => running.size,
    answered: () => answered,
    async connect(timeoutMs) {
      if (retired) return false;
      const dialled = openLink({ socket: createConnection(socketPath), clock, greetingMs: timeoutMs }); // K3
      link = dialled;
      const connected = await dialled.ready;
      if (connected)
        void dialled.lost.then(() => lost.abort(new DOMException("the plugin closed the connection", "AbortError")));
      return connected;
    },
    retire() {
      retired = true;
      channel.close(); // K5
    },
    close() {
      retired = true;
      for (const call of [...running]) call.abort(new DOMException("the connection was closed", "AbortError"));
      link?.destroy();
    },

    async unary(method: UnaryMethod, request: Uint8Array, { signal, deadlineMs, metadata, left }: WireOptions) {
      const refused = refusal(method, signal);
      if (refused) return { failure: refused };
      const ended = begin(signal, left);
      let late = false;
      let told = true;
      const onTrailer = (trailer: Metadata): void => {
        told = trailer.get(notToldKey) === undefined;
      };
      const stopTimer =
        deadlineMs === undefined
          ? () => undefined
          : clock.timer(deadlineMs, () => {
              late = true;
              ended.abort(new DOMException("deadline", "TimeoutError")); // K2
            });
      try {
        const retry = questionRetry[method];
        const options = { signal: ended.signal, onTrailer };
        const bytes = await (retry === undefined
          ? withoutStack(() => changes[method](request, { ...options, metadata: headersOf(metadata, deadlineMs) }))
          : questions[method](request, {
              ...options,
              metadata: Metadata(metadata),
              ...(deadlineMs === undefined ? undefined : { leftMs: timeLeft(clock, deadlineMs) }),
              ...retry,
            }));
        answered += 1;
        return { bytes };
      } catch (error) {
        // Of the codes that the library makes up by itself, none says that the plugin lives.
        if (error instanceof ClientError && !ofTheLibrary.has(codeOf(error.code))) answered += 1;
        const failure = failureOf(error, late ? deadlineMs : undefined);
        return { failure: error instanceof ClientError && !late && told ? { ...failure, answered: true } : failure };
      } finally {
        stopTimer();
        end(ended);
      }
    },

    async *stream(method: StreamMethod, request: Uint8Array, { signal, deadlineMs, totalMs, metadata }: WireOptions) {
      const refused = refusal(method, signal);
      if (refused) {
        yield { failure: refused };
        return;
      }
      const ended = begin(signal);
      let lateAfter: number | undefined;
      const startTimer = (afterMs: number | undefined) =>
        afterMs === undefined
          ? () => undefined
          : clock.timer(afterMs, () => {
              lateAfter = afterMs;
              ended.abort(new DOMException("deadline", "TimeoutError")); // K2
            });
      const stopTotal = totalMs === undefined ? () => undefined : startTimer(totalMs);
      // Between messages only, and never while our own side is the slow one; so the plugin is not told of it.
      let stopTimer = startTimer(deadlineMs);
      try {
        const replies = streams[method](request, { signal: ended.signal, metadata: headersOf(metadata, totalMs) });
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

const ofTheLibrary: ReadonlySet<Code> = new Set([
  "CANCELLED",
  "DEADLINE_EXCEEDED",
  "UNAVAILABLE",
  "UNKNOWN",
  "INTERNAL",
]);

function headersOf(metadata: Readonly<Record<string, string>>, toldMs: number | undefined): Metadata {
  return Metadata(toldMs === undefined ? metadata : { ...metadata, "grpc-timeout": timeoutHeader(toldMs) });
}

function timeLeft(clock: Clock, totalMs: number): () => number {
  const end = clock.monotonic() + totalMs;
  return () => end - clock.monotonic();
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
