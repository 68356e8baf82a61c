/**
 * CSI calls to one plugin, however it is reached: through its socket here, or relayed by the agent of another host. Adds to
 * a bare exchange what depends on the plugin: is it there, and does it offer the call.
 */

import type { CallOrder } from "@holdfast/model/call-order";
import { kindOfStatus } from "@holdfast/shared/errors/grpc-status";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { Status } from "nice-grpc";
import { gateOf } from "./call-gate.ts";
import { callPolicy } from "./call-policy.ts";
import type { CallSubject } from "./call-spans.ts";
import type { PluginFacts } from "./capabilities.ts";
import { type CsiExchange, type ExchangeOptions, failureOf, readerOf } from "./csi-exchange.ts";
import { gateSubject, gateSubjects } from "./gate-subject.ts";
import { codecOf, type RequestInput, type RequestOf, type ResponseOf } from "./messages.ts";
import { type CsiMethod, pathOf, type StreamMethod, type UnaryMethod } from "./methods.ts";
import { type CallFailure, type CallOutcome, codes } from "./outcome.ts";
import { cleanPluginText, sensitiveValues } from "./plugin-text.ts";
import type { CsiTransport, WireFailure } from "./transport.ts";
import { validateRequest } from "./validate-request.ts";

export interface CallOptions {
  /** Gives the call up: its outcome is unknown then, the plugin may go on. */
  readonly signal: AbortSignal;
  /** Instead of the one in the policy table. For a stream: between two messages. */
  readonly deadlineMs?: number | undefined;
  /** For a stream: how long all of it may take; as long as it takes when absent. */
  readonly totalMs?: number | undefined;
  /** Struck out of what the plugin says, besides the secrets in the request itself. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly subject?: CallSubject;
  /** As of WireOptions. */
  readonly order?: CallOrder | undefined;
  /** Told as the call leaves, by who chooses its deadline. */
  readonly begun?: ((method: UnaryMethod, deadlineMs: number) => void) | undefined;
}

/** Whether the plugin can be called right now. */
export type CallAccess =
  | {
      readonly facts: PluginFacts;
      readonly transport: CsiTransport;
      /** Announced, and answered with UNIMPLEMENTED all the same since the facts were read. */
      readonly denied?: ReadonlySet<CsiMethod>;
    }
  | { readonly closed: string };

export interface CsiCaller {
  /** Rejects only for a bad request, with every violation; all else is an outcome. */
  call<M extends UnaryMethod>(
    method: M,
    request: RequestInput<M>,
    options: CallOptions,
  ): Promise<CallOutcome<ResponseOf<M>>>;
  /** The encoded request of somebody who validated it; the encoded reply, to be validated there. */
  relay(method: UnaryMethod, request: Uint8Array, options: CallOptions): Promise<CallOutcome<Uint8Array>>;
  /** Throws a HoldfastError when the stream breaks; ending without one means complete. */
  stream<M extends StreamMethod>(
    method: M,
    request: RequestInput<M>,
    options: CallOptions,
  ): AsyncIterable<ResponseOf<M>>;
  relayStream(method: StreamMethod, request: Uint8Array, options: CallOptions): AsyncIterable<CallOutcome<Uint8Array>>;
}

export interface CsiCallerOptions {
  readonly plugin: () => string;
  readonly exchange: CsiExchange;
  readonly access: () => CallAccess;
  /** A call ran into its deadline: the connection may hang. */
  readonly onMissedDeadline?: (transport: CsiTransport) => void;
  /** "MUST NOT retry": the method belongs into `denied` until the facts were read again. */
  readonly onUnimplemented?: (method: CsiMethod) => void;
}

export function createCsiCaller(options: CsiCallerOptions): CsiCaller {
  const { plugin, exchange, access, onMissedDeadline, onUnimplemented } = options;

  const wayTo = <M extends CsiMethod>(
    method: M,
    request: RequestOf<M>,
  ): { readonly transport: CsiTransport } | { readonly failure: WireFailure } => {
    const now = access();
    if ("closed" in now) return { failure: { code: "UNAVAILABLE", message: now.closed, sent: false } };
    const failure = now.denied?.has(method) ? deniedCall(method) : gateOf(now.facts, method, request);
    return failure === undefined ? { transport: now.transport } : { failure };
  };

  const failed = <T>(method: CsiMethod, wire: WireFailure, sensitive: readonly string[]): CallOutcome<T> => {
    const failure = failureOf(plugin(), method, wire, sensitive);
    return { outcome: failure.verdict.outcome === "refused" ? "refused" : "unknown", failure };
  };

  const ask = async <M extends UnaryMethod, T>(
    method: M,
    request: RequestOf<M>,
    call: CallOptions,
    send: (transport: CsiTransport, options: ExchangeOptions) => Promise<CallOutcome<T>>,
  ): Promise<CallOutcome<T>> => {
    const sensitive = sensitiveIn(request, call);
    const { signal, subject, order, deadlineMs = callPolicy[method].deadlineMs } = call;
    const way = wayTo(method, request);
    if ("failure" in way) return failed(method, way.failure, sensitive);
    const volumeId = volumeIn(request);
    const thing = gateSubjects[method]?.(request) ?? (volumeId && gateSubject("volume", { id: volumeId }));
    const outcome = await send(way.transport, { signal, deadlineMs, sensitive, subject, volumeId, thing, order });
    if (outcome.outcome === "done") return outcome;
    if (outcome.failure.code === "DEADLINE_EXCEEDED") onMissedDeadline?.(way.transport);
    if (outcome.failure.code === "UNIMPLEMENTED") onUnimplemented?.(method);
    return outcome;
  };

  async function* open<M extends StreamMethod>(
    method: M,
    request: RequestOf<M>,
    bytes: Uint8Array,
    call: CallOptions,
  ): AsyncGenerator<CallOutcome<Uint8Array>> {
    const { signal, subject, totalMs, deadlineMs = callPolicy[method].deadlineMs } = call;
    const sensitive = sensitiveIn(request, call);
    const way = wayTo(method, request);
    if ("failure" in way) yield failed(method, way.failure, sensitive);
    else yield* exchange.stream(way.transport, method, bytes, { signal, deadlineMs, totalMs, sensitive, subject });
  }

  return {
    async call(method, input, call) {
      const request = codecOf(method).complete(input);
      validateRequest(method, request);
      return ask(method, request, call, (transport, sending) => exchange.call(transport, method, request, sending));
    },

    async relay(method, bytes, call) {
      const request = decodeRelayed(method, bytes);
      return ask(method, request, call, (transport, sending) => exchange.relay(transport, method, bytes, sending));
    },

    async *stream(method, input, call) {
      const codec = codecOf(method);
      const request = codec.complete(input);
      validateRequest(method, request);
      const read = readerOf(method, request);
      for await (const item of open(method, request, codec.encode(request), call)) {
        if (item.outcome !== "done") throw streamError(item.failure);
        const reply = read(item.value);
        if ("malformed" in reply) throw streamError(malformed(plugin(), method, reply.malformed));
        yield reply.value;
      }
    },

    async *relayStream(method, bytes, call) {
      yield* open(method, decodeRelayed(method, bytes), bytes, call);
    },
  };
}

/** The answer was about one call, and says nothing about the others of the method: they wait, and do not fail. */
function deniedCall(method: CsiMethod): WireFailure {
  const message = `the plugin answered UNIMPLEMENTED to another ${method}; this one is sent once its capabilities were read anew`;
  return { code: "UNAVAILABLE", message, sent: false };
}

/** In the plugin's own words, for spans. */
function volumeIn(request: object): string | undefined {
  const { volumeId, sourceVolumeId }: { readonly volumeId?: string; readonly sourceVolumeId?: string } = request;
  return volumeId ?? sourceVolumeId;
}

function sensitiveIn(request: object, { secrets }: CallOptions): string[] {
  return [...sensitiveValues(request), ...Object.values(secrets ?? {})];
}

function decodeRelayed<M extends CsiMethod>(method: M, bytes: Uint8Array): RequestOf<M> {
  try {
    return codecOf(method).decodeRequest(bytes);
  } catch (error) {
    const description = `is no request of ${pathOf(method)}: ${cleanPluginText(String(error), [])}`;
    throw invalidArgument([{ field: "request", description }]);
  }
}

function malformed(plugin: string, method: StreamMethod, what: string): CallFailure {
  return failureOf(plugin, method, { code: "INTERNAL", message: `malformed reply: ${what}`, sent: true }, []);
}

function streamError({ plugin, method, code, message }: CallFailure): HoldfastError {
  return new HoldfastError({
    kind: kindOfStatus[codes.indexOf(code) as Status] ?? "unknown",
    reason: "STREAM_BROKEN",
    message: `${method} of plugin ${plugin} broke off with ${code}: ${message}; ask again from the end of the last block`,
    metadata: { plugin, method, code },
  });
}
