/**
 * Channels and clients. From the outside in: errors, deadline over all attempts, retry, and per attempt: the time left on the wire,
 * a span, the error's details.
 */
import { ChannelCredentials, type ChannelOptions } from "@grpc/grpc-js";
import {
  type Channel,
  type Client,
  type CompatServiceDefinition,
  createChannel,
  createClientFactory,
  type Status,
} from "nice-grpc";
import { type RetryOptions as LibraryRetryOptions, retryMiddleware } from "nice-grpc-client-middleware-retry";
import { type ClientMiddleware, composeClientMiddleware } from "nice-grpc-common";
import { errorDetailsClientMiddleware } from "nice-grpc-error-details";
import type { Logger } from "../log/logger.ts";
import { type DeadlineCallOptions, deadlineClientMiddleware, timeoutHeaderMiddleware } from "./deadline-client.ts";
import { errorClientMiddleware } from "./error-middleware.ts";
import { type Identity, withIdentity } from "./identity.ts";
import { formatAddress, parseAddress } from "./listen-address.ts";
import { defaultMaxMessageBytes } from "./message-limits.ts";
import { traceClientMiddleware } from "./trace-client.ts";

export interface GrpcChannelOptions {
  readonly maxMessageBytes?: number;
  readonly credentials?: ChannelCredentials;
  /** Its own connection, even where another channel of this process leads to the same address. */
  readonly ownConnection?: boolean;
  /** Never on plugin channels: a Go plugin ends a long call for "too many pings". */
  readonly keepalive?: { readonly timeMs: number; readonly timeoutMs: number };
}

export type GrpcChannel = Channel;

export function createGrpcChannel(address: string, options: GrpcChannelOptions = {}): GrpcChannel {
  const maxMessageBytes = options.maxMessageBytes ?? defaultMaxMessageBytes;
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
  };
  const credentials = options.credentials ?? ChannelCredentials.createInsecure();
  return createChannel(formatAddress(parseAddress(address)), credentials, channelOptions);
}

export interface RetryPolicy {
  /** All attempts counted, the first too. */
  readonly maxAttempts: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
}

export interface RetryCallOptions {
  /** Codes after which the call is sent again; none if not given. Only unary calls are. */
  retryCodes?: readonly Status[];
}

export type GrpcCallOptions = DeadlineCallOptions & RetryCallOptions;

export type GrpcClient<Definition extends CompatServiceDefinition> = Client<Definition, GrpcCallOptions>;

export interface GrpcClientOptions {
  readonly log: Logger;
  readonly identity?: Identity;
  readonly defaultDeadlineMs?: number;
  readonly retry?: RetryPolicy;
}

export const defaultRetry: RetryPolicy = { maxAttempts: 3, baseDelayMs: 50, maxDelayMs: 1000 };

export function createGrpcClient<Definition extends CompatServiceDefinition>(
  definition: Definition,
  channel: GrpcChannel,
  options: GrpcClientOptions,
): GrpcClient<Definition> {
  const { log, identity, defaultDeadlineMs = 30_000, retry = defaultRetry } = options;
  // The first is the innermost.
  const base = createClientFactory()
    .use(errorDetailsClientMiddleware)
    .use(traceClientMiddleware())
    .use(timeoutHeaderMiddleware)
    .use(retryPerCode(log, retry))
    .use(deadlineClientMiddleware(defaultDeadlineMs))
    .use(errorClientMiddleware);
  return (identity === undefined ? base : base.use(sendIdentity(identity))).create(definition, channel);
}

/** Every option is set: the library's own defaults repeat INTERNAL and UNKNOWN, which for CSI may have happened. */
function retryPerCode(log: Logger, policy: RetryPolicy): ClientMiddleware<RetryCallOptions> {
  const codesToOptions: ClientMiddleware<RetryCallOptions, LibraryRetryOptions> = async function* retryOnly(
    call,
    given,
  ) {
    const { retryCodes = [], ...options } = given;
    return yield* call.next(call.request, {
      ...options,
      retry: retryCodes.length > 0,
      retryableStatuses: [...retryCodes],
      retryMaxAttempts: policy.maxAttempts - 1,
      retryBaseDelayMs: policy.baseDelayMs,
      retryMaxDelayMs: policy.maxDelayMs,
      onRetryableError: (error, attempt, delayMs) => {
        const fields = { method: call.method.path, attempt: attempt + 1, delay_ms: delayMs, error };
        log.debug("call failed and is sent again", fields);
      },
    });
  };
  return composeClientMiddleware(retryMiddleware, codesToOptions);
}

function sendIdentity(identity: Identity): ClientMiddleware {
  return async function* identified(call, options) {
    return yield* call.next(call.request, { ...options, metadata: withIdentity(options.metadata, identity) });
  };
}
