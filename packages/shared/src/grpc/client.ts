/**
 * Channels and clients. From the outside in: errors, deadline over all attempts, retry, and per attempt: who calls, the time left
 * on the wire, a span, the error's details.
 */
import { isIP } from "node:net";
import { ChannelCredentials, type ChannelOptions } from "@grpc/grpc-js";
import {
  type CallOptions,
  type Channel,
  type Client,
  type CompatServiceDefinition,
  createChannel,
  createClientFactory,
  Status,
} from "nice-grpc";
import { type RetryOptions, retryMiddleware } from "nice-grpc-client-middleware-retry";
import type { ClientMiddleware, ClientMiddlewareCall } from "nice-grpc-common";
import { fromClientError } from "../errors/grpc-status.ts";
import type { Logger } from "../log/logger.ts";
import { type AttemptOptions, attemptMiddleware } from "./attempt-client.ts";
import { beginDeadline } from "./deadline-client.ts";
import { endedBySignal } from "./ended-by-signal.ts";
import type { Identity } from "./identity.ts";
import { type Address, bareHost, formatAddress, parseAddress } from "./listen-address.ts";
import { defaultMaxMessageBytes } from "./message-limits.ts";

export interface GrpcChannelOptions {
  readonly maxMessageBytes?: number;
  /** Of TCP addresses; a unix socket has no TLS. */
  readonly credentials?: ChannelCredentials | undefined;
  /** Its own connection, even where another channel of this process leads to the same address. */
  readonly ownConnection?: boolean;
  /** Never on plugin channels: a Go plugin ends a long call for "too many pings". */
  readonly keepalive?: { readonly timeMs: number; readonly timeoutMs: number };
  /** http://host:port of the HTTP proxy to go through, or "none"; without it what the environment says. Unix sockets are dialled directly. */
  readonly proxy?: string;
}

export type GrpcChannel = Channel;

export function createGrpcChannel(address: string, options: GrpcChannelOptions = {}): GrpcChannel {
  const maxMessageBytes = options.maxMessageBytes ?? defaultMaxMessageBytes;
  const at = parseAddress(address);
  const proxied = at.kind === "tcp" ? proxyOptions(formatAddress(at), options.proxy) : undefined;
  const channelOptions: ChannelOptions = {
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,
    // Retries are ours alone: those of the transport are invisible in traces and repeat calls that must not be.
    "grpc.enable_retries": 0,
    "grpc.use_local_subchannel_pool": options.ownConnection === true ? 1 : 0,
    ...(options.keepalive === undefined
      ? {}
      : {
          "grpc.keepalive_time_ms": options.keepalive.timeMs,
          "grpc.keepalive_timeout_ms": options.keepalive.timeoutMs,
        }),
    ...(options.proxy === undefined ? {} : { "grpc.enable_http_proxy": 0 }),
    ...tlsOptions(at),
    ...proxied?.options,
  };
  const credentials = at.kind === "tcp" ? options.credentials : undefined;
  return createChannel(
    proxied?.dialled ?? formatAddress(at),
    credentials ?? ChannelCredentials.createInsecure(),
    channelOptions,
  );
}

/** An address is no name that a client may ask a server for, and Node refuses to. Who the server is is judged by its certificate alone. */
const nameOfAddresses = "controller.holdfast";
const tlsOptions = (at: Address): ChannelOptions =>
  at.kind === "tcp" && isIP(bareHost(at.host)) !== 0 ? { "grpc.ssl_target_name_override": nameOfAddresses } : {};

/** grpc-js reads a proxy from the environment alone, and hands it on to its connections by these options, which a channel takes too. */
function proxyOptions(target: string, proxy: string | undefined) {
  if (proxy === undefined || proxy === "none") return undefined;
  const { hostname, port, username, password } = new URL(proxy);
  const options: ChannelOptions = {
    "grpc.http_connect_target": `dns:${target}`,
    "grpc.default_authority": target,
    ...(username === "" ? {} : { "grpc.http_connect_creds": decodeURIComponent(`${username}:${password}`) }),
  };
  return { dialled: `${hostname}:${port === "" ? 80 : port}`, options };
}

export interface RetryPolicy {
  /** All attempts counted, the first too. */
  readonly maxAttempts: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
}

export interface GrpcCallOptions {
  /** Milliseconds from now, over all attempts. Streams have none unless given. */
  deadlineMs?: number;
  /** Codes after which the call is sent again; none if not given. Only unary calls are. */
  retryCodes?: readonly Status[];
}

export type GrpcClient<Definition extends CompatServiceDefinition> = Client<Definition, GrpcCallOptions>;

export interface GrpcClientOptions {
  readonly log: Logger;
  readonly identity?: Identity;
  readonly defaultDeadlineMs?: number;
  readonly retry?: RetryPolicy;
  /** A call that only reads is sent again after UNAVAILABLE, where the call names no codes. */
  readonly readsAgain?: boolean;
}

export const defaultRetry: RetryPolicy = { maxAttempts: 3, baseDelayMs: 50, maxDelayMs: 1000 };

export function createGrpcClient<Definition extends CompatServiceDefinition>(
  definition: Definition,
  channel: GrpcChannel,
  options: GrpcClientOptions,
): GrpcClient<Definition> {
  const { log, identity, defaultDeadlineMs = 30_000, retry = defaultRetry, readsAgain = false } = options;
  // The first is the innermost.
  return createClientFactory()
    .use(attemptMiddleware(identity))
    .use(callMiddleware(log, defaultDeadlineMs, retry, readsAgain ? [Status.UNAVAILABLE] : []))
    .create(definition, channel);
}

/** As this API names its methods. */
const readsOnly = /\/(?:Get|List|Explain)/;

/** Every failure of a client call is a HoldfastError; a call given up by its signal fails with the signal's own reason. */
function callMiddleware(
  log: Logger,
  defaultDeadlineMs: number,
  policy: RetryPolicy,
  readRetryCodes: readonly Status[],
): ClientMiddleware<GrpcCallOptions, AttemptOptions> {
  return async function* called<Request, Response>(
    call: ClientMiddlewareCall<Request, Response, AttemptOptions>,
    { deadlineMs, retryCodes: asked, ...given }: CallOptions & GrpcCallOptions,
  ) {
    const streaming = call.requestStream || call.responseStream;
    const { path } = call.method;
    const retryCodes = asked ?? (readsOnly.test(path) ? readRetryCodes : []);
    const deadline = beginDeadline(path, deadlineMs ?? (streaming ? undefined : defaultDeadlineMs), given.signal);
    const options = deadline === undefined ? given : { ...given, signal: deadline.signal, deadlineAt: deadline.at };
    try {
      const attempts =
        retryCodes.length === 0
          ? call.next(call.request, options)
          : retryMiddleware(call, { ...options, ...retryOptions(log, policy, path, retryCodes) });
      if (call.responseStream) return yield* attempts;
      return (await attempts.next()).value as Response;
    } catch (error) {
      throw fromClientError(endedBySignal(endedBySignal(error, deadline?.signal), given.signal));
    } finally {
      deadline?.end();
    }
  };
}

/** Every option is set: the library's own defaults repeat INTERNAL and UNKNOWN, which for CSI may have happened. */
function retryOptions(log: Logger, policy: RetryPolicy, method: string, codes: readonly Status[]): RetryOptions {
  return {
    retry: true,
    retryableStatuses: [...codes],
    retryMaxAttempts: policy.maxAttempts - 1,
    retryBaseDelayMs: policy.baseDelayMs,
    retryMaxDelayMs: policy.maxDelayMs,
    onRetryableError: (error, attempt, delayMs) => {
      const fields = { method, attempt: attempt + 1, delay_ms: delayMs, error };
      log.debug("call failed and is sent again", fields);
    },
  };
}
