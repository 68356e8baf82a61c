/**
 * CSI calls to one plugin, however it is reached: through its socket here, or relayed by the agent of another host. Adds to
 * a bare exchange what depends on the plugin: is it there, does it offer the call, and may a question be asked again.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { gateOf } from "./call-gate.ts";
import { callPolicy } from "./call-policy.ts";
import type { PluginFacts } from "./capabilities.ts";
import { type CallSubject, type CsiExchange, failureOf } from "./csi-exchange.ts";
import { codecOf, type RequestInput, type ResponseOf } from "./messages.ts";
import { type CsiMethod, pathOf, type StreamMethod, type UnaryMethod } from "./methods.ts";
import type { CallOutcome } from "./outcome.ts";
import { cleanPluginText, sensitiveValues } from "./plugin-text.ts";
import type { CsiTransport, WireFailure } from "./transport.ts";
import { validateRequest } from "./validate-request.ts";
import { responseViolations } from "./validate-response.ts";

export interface CallOptions {
  /** Gives the call up: its outcome is unknown then, the plugin may go on. */
  readonly signal: AbortSignal;
  /** Instead of the one in the policy table. For a stream: between two messages. */
  readonly deadlineMs?: number;
  /** Struck out of what the plugin says, besides the secrets in the request itself. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly subject?: CallSubject;
}

/** Whether the plugin can be called right now. */
export type CallAccess =
  | { readonly facts: PluginFacts; readonly transport: CsiTransport }
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
  readonly clock: Clock;
  readonly access: () => CallAccess;
  /** Resolves once a question that met a broken connection may be asked again. */
  readonly whenReady: (signal: AbortSignal) => Promise<unknown>;
  /** A call ran into its deadline: the connection may hang. */
  readonly onMissedDeadline?: (transport: CsiTransport) => void;
}

export function createCsiCaller(options: CsiCallerOptions): CsiCaller {
  const { plugin, exchange, clock, access, whenReady, onMissedDeadline } = options;

  /** The policy's attempts around one way of asking. */
  const attempts = async <T>(
    method: UnaryMethod,
    { signal, deadlineMs }: CallOptions,
    ask: (leftMs: number) => Promise<CallOutcome<T>>,
  ): Promise<CallOutcome<T>> => {
    const policy = callPolicy[method];
    const total = deadlineMs ?? policy.deadlineMs;
    const end = clock.monotonic() + total;
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await ask(attempt === 1 ? total : end - clock.monotonic());
      if (outcome.outcome === "done" || attempt >= policy.attempts) return outcome;
      if (!outcome.failure.sent || !policy.retryCodes.includes(outcome.failure.code)) return outcome;
      if (!(await readyBefore(end, signal))) return outcome;
    }
  };

  /** The connection broke under a question: the next attempt waits until the plugin is known again. */
  const readyBefore = async (end: number, signal: AbortSignal): Promise<boolean> => {
    const linked = linkSignals(signal);
    const stopTimer = clock.timer(end - clock.monotonic(), () =>
      linked.abort(new DOMException("late", "TimeoutError")),
    );
    try {
      await whenReady(linked.signal);
      return clock.monotonic() < end;
    } catch {
      return false;
    } finally {
      stopTimer();
      linked.dispose();
    }
  };

  const ask = async <T>(
    method: UnaryMethod,
    request: object,
    { secrets }: CallOptions,
    send: (transport: CsiTransport, sensitive: readonly string[]) => Promise<CallOutcome<T>>,
    gated: object | undefined,
  ): Promise<CallOutcome<T>> => {
    const sensitive = [...sensitiveValues(request), ...Object.values(secrets ?? {})];
    const way = access();
    const refusal = "closed" in way ? away(way.closed) : gateOf(way.facts, method, gated as never);
    if (refusal !== undefined || "closed" in way) return refused(method, refusal ?? away("it is away"), sensitive);
    const outcome = await send(way.transport, sensitive);
    if (outcome.outcome === "unknown" && outcome.failure.code === "DEADLINE_EXCEEDED")
      onMissedDeadline?.(way.transport);
    return outcome;
  };

  const refused = <T>(method: CsiMethod, failure: WireFailure, sensitive: readonly string[]): CallOutcome<T> => {
    const made = failureOf(plugin(), method, failure, sensitive);
    return { outcome: made.verdict.outcome === "refused" ? "refused" : "unknown", failure: made };
  };

  async function* openStream(method: StreamMethod, bytes: Uint8Array, request: object, call: CallOptions) {
    const { signal, secrets, deadlineMs = callPolicy[method].deadlineMs } = call;
    const sensitive = [...sensitiveValues(request), ...Object.values(secrets ?? {})];
    const way = access();
    const refusal = "closed" in way ? away(way.closed) : gateOf(way.facts, method, undefined);
    if (refusal !== undefined || "closed" in way) {
      yield { failure: refusal ?? away("it is away"), sensitive };
      return;
    }
    for await (const reply of way.transport.stream(method, bytes, { signal, deadlineMs, metadata: {} }))
      yield { ...reply, sensitive };
  }

  return {
    async call(method, input, call) {
      const request = codecOf(method).complete(input);
      validateRequest(method, request);
      return attempts(method, call, (leftMs) =>
        ask(
          method,
          request,
          call,
          (transport, sensitive) =>
            exchange.call(transport, method, request, { ...call, deadlineMs: leftMs, sensitive }),
          request,
        ),
      );
    },

    async relay(method, bytes, call) {
      const request = decodeRelayed(method, bytes);
      return attempts(method, call, (leftMs) =>
        ask(
          method,
          request,
          call,
          (transport, sensitive) =>
            exchange.relay(transport, method, bytes, { ...call, deadlineMs: leftMs, sensitive }),
          request,
        ),
      );
    },

    async *stream(method, input, call) {
      const codec = codecOf(method);
      const request = codec.complete(input);
      validateRequest(method, request);
      for await (const item of openStream(method, codec.encode(request), request, call)) {
        if ("failure" in item) throw streamError(plugin(), method, item.failure, item.sensitive);
        const value = codec.decode(item.bytes);
        const [violation] = responseViolations(method, request, value);
        if (violation !== undefined) {
          const message = `malformed reply: ${violation.field} ${violation.description}`;
          throw streamError(plugin(), method, { code: "INTERNAL", message, sent: true }, item.sensitive);
        }
        yield value;
      }
    },

    async *relayStream(method, bytes, call) {
      const request = decodeRelayed(method, bytes);
      for await (const item of openStream(method, bytes, request, call)) {
        if ("failure" in item) yield refused(method, item.failure, item.sensitive);
        else yield { outcome: "done", value: item.bytes };
      }
    },
  };
}

function away(reason: string): WireFailure {
  return { code: "UNAVAILABLE", message: reason, sent: false };
}

function decodeRelayed(method: CsiMethod, bytes: Uint8Array): object {
  try {
    return codecOf(method).decodeRequest(bytes) as object;
  } catch (error) {
    const description = `is no request of ${pathOf(method)}: ${cleanPluginText(String(error), [])}`;
    throw invalidArgument([{ field: "request", description }]);
  }
}

function streamError(plugin: string, method: StreamMethod, failure: WireFailure, sensitive: readonly string[]) {
  const { code, message } = failureOf(plugin, method, failure, sensitive);
  return new HoldfastError({
    kind: code === "UNIMPLEMENTED" ? "unimplemented" : code === "NOT_FOUND" ? "not_found" : "unavailable",
    reason: "STREAM_BROKEN",
    message: `${method} of plugin ${plugin} broke off with ${code}: ${message}; ask again from the end of the last block`,
    metadata: { plugin, method, code },
  });
}
