/**
 * The client of a plugin's socket. A question is asked again inside its deadline, as often and after such codes as the policy table says.
 *
 * Q1 A call that changes something has no row with attempts: it is sent once. Q2 Each attempt tells the plugin the time that is left.
 * Q3 A repeat is an event on the span of the call, so that a trace shows one call with what it met.
 */
import { trace } from "@opentelemetry/api";
import { type Channel, type Client, type ClientError, createClientFactory, Metadata, type Status } from "nice-grpc";
import { type RetryOptions, retryMiddleware } from "nice-grpc-client-middleware-retry";
import type { CallOptions, ClientMiddleware, ClientMiddlewareCall } from "nice-grpc-common";
import { type CallPolicy, callPolicy } from "./call-policy.ts";
import type { UnaryMethod } from "./methods.ts";
import { codeOf, codes } from "./outcome.ts";
import { rawUnaries } from "./raw-definitions.ts";

export interface PluginCallOptions {
  /** Told to the plugin at each attempt. */
  leftMs?: () => number;
}

export type PluginClient = Client<typeof rawUnaries, RetryOptions & PluginCallOptions>;

const pauses = { retryBaseDelayMs: 50, retryMaxDelayMs: 1_000 } as const;

/** Eight digits at most, says the protocol; and 0 would mean "already over". */
export const timeoutHeader = (ms: number): string => `${Math.min(Math.max(1, Math.ceil(ms)), 99_999_999)}m`;

/** Q2 */
const timeLeft: ClientMiddleware<PluginCallOptions> = async function* timeLeft<Request, Response>(
  call: ClientMiddlewareCall<Request, Response>,
  { leftMs, ...options }: CallOptions & PluginCallOptions,
) {
  const metadata = Metadata(options.metadata);
  if (leftMs !== undefined) metadata.set("grpc-timeout", timeoutHeader(leftMs()));
  return yield* call.next(call.request, { ...options, metadata });
};

/** The first is the innermost. */
export const createPluginClient = (channel: Channel): PluginClient =>
  createClientFactory().use(timeLeft).use(retryMiddleware).create(rawUnaries, channel);

/** Q3 */
const onRetryableError = (error: ClientError, attempt: number, delayMs: number): void => {
  trace.getActiveSpan()?.addEvent("asked again later", {
    "error.type": codeOf(error.code),
    "holdfast.attempt": attempt + 2,
    "holdfast.retry_in_ms": delayMs,
  });
};

const retryOf = ({ attempts, retryCodes }: CallPolicy): RetryOptions => ({
  retry: true,
  retryableStatuses: retryCodes.map((code) => codes.indexOf(code) as Status),
  retryMaxAttempts: attempts - 1,
  ...pauses,
  onRetryableError,
});

/** How the method is asked again; undefined: it is not. Q1 */
export const questionRetry: { readonly [M in UnaryMethod]?: RetryOptions } = Object.fromEntries(
  Object.entries(callPolicy).flatMap(([method, policy]) => (policy.attempts > 1 ? [[method, retryOf(policy)]] : [])),
);
