/**
 * One CSI RPC over one transport: checked, encoded, traced, sent once, decoded, checked again, and turned into an outcome.
 * It decides nothing about who may be called or when to ask again.
 */

import type { CallOrder } from "@holdfast/model/call-order";
import { traceIdOf } from "@holdfast/model/trace-id";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Tracing } from "@holdfast/shared/tracing";
import { type Answered, type CallPeer, type CallSubject, createCallSpans, type TracedCall } from "./call-spans.ts";
import { codecOf, type RequestOf, type ResponseOf } from "./messages.ts";
import { type CsiMethod, methods, type StreamMethod, type UnaryMethod } from "./methods.ts";
import { type CallFailure, type CallOutcome, type Code, verdictOf } from "./outcome.ts";
import { cleanPluginText } from "./plugin-text.ts";
import type { CsiTransport, WireFailure } from "./transport.ts";
import { responseViolations } from "./validate-response.ts";

export interface CallReport {
  readonly plugin: string;
  readonly method: CsiMethod;
  readonly code: Code;
  readonly seconds: number;
  /** It was refused as overtaken by a later one. */
  readonly stale?: boolean | undefined;
  /** Of every call that is no stream. */
  readonly about?: ReportedCall;
}

/** What a call was about, by ids alone. */
export interface ReportedCall {
  readonly subject: CallSubject;
  /** In the words of the plugin: a volume, a snapshot or a group of them. */
  readonly thing: string | undefined;
  readonly instance: string | undefined;
  /** Through the agent of another host, which reports it too. */
  readonly relayed: boolean;
  /** False: it did not leave. */
  readonly sent: boolean;
  readonly traceId: string | undefined;
}

export interface ExchangeOptions extends TracedCall {
  readonly deadlineMs: number;
  /** For a stream: how long all of it may take. */
  readonly totalMs?: number | undefined;
  /** Struck out of whatever the plugin says. */
  readonly sensitive: readonly string[];
  /** As of WireOptions. */
  readonly order?: CallOrder | undefined;
  /** As of ReportedCall. */
  readonly thing?: string | undefined;
}

export interface CsiExchange {
  call<M extends UnaryMethod>(
    transport: CsiTransport,
    method: M,
    request: RequestOf<M>,
    options: ExchangeOptions,
  ): Promise<CallOutcome<ResponseOf<M>>>;
  /** Bytes as they are; only whoever made them can tell whether the answer fits. */
  relay(
    transport: CsiTransport,
    method: UnaryMethod,
    request: Uint8Array,
    options: ExchangeOptions,
  ): Promise<CallOutcome<Uint8Array>>;
  /** A failure ends the stream and is its last item; a stream that ends without one is complete. */
  stream(
    transport: CsiTransport,
    method: StreamMethod,
    request: Uint8Array,
    options: ExchangeOptions,
  ): AsyncGenerator<CallOutcome<Uint8Array>>;
}

export interface CsiExchangeOptions extends CallPeer {
  readonly tracing: Tracing;
  readonly clock: Clock;
  readonly onCall?: ((report: CallReport) => void) | undefined;
}

type Read<T> = (bytes: Uint8Array) => { readonly value: T } | { readonly malformed: string };

interface Reader<T> {
  readonly read: Read<T>;
  /** The reply of a call whose failure amounts to success: a delete of what is not there. Such replies have no fields. */
  readonly empty: T;
}

const bytesAsTheyAre: Reader<Uint8Array> = { read: (bytes) => ({ value: bytes }), empty: new Uint8Array() };

export function createCsiExchange({ tracing, clock, onCall, ...peer }: CsiExchangeOptions): CsiExchange {
  const { plugin } = peer;
  const spans = createCallSpans(peer, { tracing, clock });
  const traceHeaders = (): Record<string, string> => {
    const traceparent = tracing.currentTraceparent();
    return traceparent === undefined ? {} : { traceparent };
  };

  const send = async <T>(
    transport: CsiTransport,
    method: UnaryMethod,
    request: Uint8Array,
    { signal, deadlineMs, sensitive, order, thing, subject }: ExchangeOptions,
    reader: Reader<T>,
  ): Promise<Answered<T>> => {
    const failed = (failure: WireFailure): Answered<T> => {
      const made = failureOf(plugin(), method, failure, sensitive);
      const { outcome } = made.verdict;
      const done: CallOutcome<T> = { outcome: "done", value: reader.empty };
      return { outcome: outcome === "done" ? done : { outcome, failure: made }, code: made.code };
    };
    const metadata = traceHeaders();
    const started = clock.monotonic();
    const reply = await transport.unary(method, request, { signal, deadlineMs, metadata, order });
    const { code, stale, sent }: Pick<WireFailure, "code" | "stale" | "sent"> =
      "failure" in reply ? reply.failure : { code: "OK", sent: true };
    onCall?.({
      plugin: plugin(),
      method,
      code,
      seconds: (clock.monotonic() - started) / 1000,
      stale,
      about: {
        subject: peer.node === undefined ? { ...subject } : { node: peer.node, ...subject },
        thing,
        instance: peer.instance,
        relayed: peer.hop === "relay",
        sent,
        traceId: traceIdOf(metadata["traceparent"]),
      },
    });
    if ("failure" in reply) return failed(reply.failure);
    const result = reader.read(reply.bytes);
    if ("value" in result) return { outcome: { outcome: "done", value: result.value }, code };
    // Something was done, or not: a reply that makes no sense proves neither.
    return failed({ code: "INTERNAL", message: `malformed reply: ${result.malformed}`, sent: true, answered: true });
  };

  const traced = async <T>(
    transport: CsiTransport,
    method: UnaryMethod,
    request: Uint8Array,
    options: ExchangeOptions,
    reader: Reader<T>,
  ): Promise<CallOutcome<T>> =>
    (await spans.of(method, options, () => send(transport, method, request, options, reader))).outcome;

  async function* streamed(
    transport: CsiTransport,
    method: StreamMethod,
    request: Uint8Array,
    { deadlineMs, totalMs, sensitive, ...call }: ExchangeOptions,
  ): AsyncGenerator<CallOutcome<Uint8Array>> {
    const started = clock.monotonic();
    const over = Promise.withResolvers<Answered<Uint8Array>>();
    let metadata: Record<string, string> = {};
    // The span lasts as long as the stream: it is entered for its traceparent, and left when the consumer is done.
    void spans.of(method, call, () => {
      metadata = traceHeaders();
      return over.promise;
    });
    let last: Answered<Uint8Array> = { outcome: { outcome: "done", value: new Uint8Array() }, code: "OK" };
    const { signal } = call;
    try {
      for await (const reply of transport.stream(method, request, { signal, deadlineMs, totalMs, metadata })) {
        if ("failure" in reply) {
          const failure = failureOf(plugin(), method, reply.failure, sensitive);
          const outcome = failure.verdict.outcome === "refused" ? "refused" : "unknown";
          last = { outcome: { outcome, failure }, code: failure.code };
          yield last.outcome;
        } else yield { outcome: "done", value: reply.bytes };
      }
    } finally {
      over.resolve(last);
      onCall?.({ plugin: plugin(), method, code: last.code, seconds: (clock.monotonic() - started) / 1000 });
    }
  }

  return {
    call(transport, method, request, options) {
      const bytes = codecOf(method).encode(request);
      const reader = { read: readerOf(method, request), empty: {} as ResponseOf<typeof method> };
      return traced(transport, method, bytes, options, reader);
    },
    relay: (transport, method, request, options) => traced(transport, method, request, options, bytesAsTheyAre),
    stream: streamed,
  };
}

/** Decodes a reply and says what is wrong with it, if anything is. */
export function readerOf<M extends CsiMethod>(method: M, request: RequestOf<M>): Read<ResponseOf<M>> {
  const codec = codecOf(method);
  return (bytes) => {
    try {
      const value = codec.decode(bytes);
      const violations = responseViolations(method, request, value);
      if (violations.length === 0) return { value };
      return { malformed: violations.map(({ field, description }) => `${field} ${description}`).join("; ") };
    } catch (error) {
      return { malformed: `cannot be decoded: ${String(error)}` };
    }
  };
}

/** A failure as everybody above sees it: clean, short, with what it proves. */
export function failureOf(
  plugin: string,
  method: CallFailure["method"],
  { code, message, sent, answered, stale }: WireFailure,
  sensitive: readonly string[],
): CallFailure {
  // An error that claims to be OK is a broken peer's.
  const known = code === "OK" ? "UNKNOWN" : code;
  let verdict = verdictOf(methods[method].callKind, known);
  // Only the plugin itself knows that what was to go is gone; a status that was made up on the way proves nothing.
  if (answered !== true && verdict.outcome === "done") verdict = verdictOf(methods[method].callKind, "UNAVAILABLE");
  // Our own bound on calls in flight says nothing about the node.
  if (!sent && verdict.tellPlacement) verdict = verdictOf(methods[method].callKind, "UNAVAILABLE");
  const failure = { method, plugin, code: known, verdict, message: cleanPluginText(message, sensitive), sent };
  return { ...failure, ...(answered === true ? { answered } : {}), ...(stale === true ? { stale } : {}) };
}
