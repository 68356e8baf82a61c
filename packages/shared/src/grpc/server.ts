/**
 * A gRPC server with everything that every server of Holdfast has: errors with details, a span and a log line a call, the caller's
 * identity and deadline, health, reflection, and an end that comes within a bound.
 *
 * S1 After stop() has been called no new call is served. S2 stop() ends within graceMs and a moment, whatever handlers do.
 * S3 Without credentials nothing but loopback and unix sockets is bound, unless that was asked for by name.
 */

import { randomUUID } from "node:crypto";
import { chmod } from "node:fs/promises";
import type { ServerCredentials } from "@grpc/grpc-js";
import { type CompatServiceDefinition, createServer, type ServerMiddleware } from "nice-grpc";
import { HealthDefinition, HealthServiceImpl, HealthState } from "nice-grpc-server-health";
import { HoldfastError } from "../errors/holdfast-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";
import type { CallExtension, Implementation } from "./call-context.ts";
import { callMiddleware } from "./call-middleware.ts";
import { createCallTurns } from "./call-turns.ts";
import { limitConnections } from "./connection-limit.ts";
import { deadlineInterceptor, deadlineStage } from "./deadline-server.ts";
import { type IdentityReader, identityFromMetadata } from "./identity.ts";
import { identityStage } from "./identity-stage.ts";
import { type Address, formatAddress, isLoopback, parseAddress } from "./listen-address.ts";
import { logStage, shuttingDownReason } from "./log-stage.ts";
import { defaultMaxMessageBytes } from "./message-limits.ts";
import { metricsStage } from "./metrics-stage.ts";
import { overloadStage } from "./overload-stage.ts";
import { loadReflection } from "./reflection.ts";
import { createServerGauges } from "./server-metrics.ts";
import { createServerSpans } from "./trace-server.ts";
import { clearStaleSocket } from "./unix-socket.ts";

export interface ServerLimits {
  /** Of one message, both ways. 1 MiB; 16 MiB for servers that relay plugin calls. */
  readonly maxMessageBytes?: number;
  /** Calls on one connection that their caller waits for; waiting ones and streams count. A client holds back those above. */
  readonly maxConcurrentStreams?: number;
  /** Unary calls in flight, of all callers and of one; those above are refused with OVERLOADED. */
  readonly maxInFlight?: number;
  readonly maxInFlightPerCaller?: number;
  readonly maxOpenStreams?: number;
  /** Connections above are closed as they come. */
  readonly maxConnections?: number;
  /** After this time a client is asked to take another connection; what runs on the old one goes on there. Without it: never. */
  readonly connectionAgeMs?: number;
}

export interface GrpcServerOptions {
  readonly log: Logger;
  readonly metrics?: Metrics;
  readonly identity?: IdentityReader;
  readonly limits?: ServerLimits;
  /** Run for every service, after the fixed ones, in this order. */
  readonly middlewares?: readonly CallMiddleware[];
  readonly credentials?: ServerCredentials;
  /** Binds TCP addresses other than loopback without TLS. */
  readonly insecure?: boolean;
  readonly reflection?: boolean;
  /** For unary calls whose caller sent no deadline. */
  readonly defaultDeadlineMs?: number;
  /** Permissions of a unix socket. */
  readonly socketMode?: number;
}

export type CallMiddleware = ServerMiddleware<object, CallExtension>;

export interface GrpcServer {
  /** Before listen(). */
  add<Definition extends CompatServiceDefinition>(
    definition: Definition,
    implementation: Implementation<Definition>,
    options?: { readonly middlewares?: readonly CallMiddleware[] },
  ): void;
  /** Answers the address it is bound to, with the real port. */
  listen(address: string): Promise<string>;
  /** What grpc.health.v1 answers; "" is the whole server. */
  setServing(service: string, serving: boolean): void;
  stop(options: { readonly graceMs: number }): Promise<void>;
}

/** Enough for tens of thousands of calls a second, and far from what holds a turn of the event loop up. */
const callsPerTurn = 16;

/** A peer that vanished without a word is noticed while nothing is sent to it. One that is stopped for 20 seconds is not taken for one. */
const keepaliveMs = 60_000;
const keepaliveTimeoutMs = 30_000;
/** Without any call; the next call of that client opens another one. */
const connectionIdleMs = 15 * 60_000;

/** Between the abort of what still runs and the end of its connections: time to send the answer. */
const lastWordMs = 250;

export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { log, limits = {}, middlewares = [], credentials, reflection = true } = options;
  const stopStreams = new AbortController();
  const stopUnary = new AbortController();
  const health = HealthState();
  const names: string[] = [];
  let address: Address | undefined;
  let boundTo = "";
  let forgetConnections: () => void = () => undefined;

  const maxMessageBytes = limits.maxMessageBytes ?? defaultMaxMessageBytes;
  const { maxInFlight = 4096, maxInFlightPerCaller = maxInFlight, maxConcurrentStreams = 100 } = limits;
  const spanOf = createServerSpans();
  /** Every call's, in this order; the details of errors and the span lie around them. */
  const stages = [
    identityStage(options.identity ?? identityFromMetadata),
    deadlineStage({
      stopping: { streams: stopStreams.signal, unary: stopUnary.signal },
      defaultDeadlineMs: options.defaultDeadlineMs ?? 60_000,
      createRequestId: randomUUID,
    }),
    logStage(log),
  ];
  const gauges = createServerGauges(options.metrics, () => boundTo);
  const turns = createCallTurns({ perTurn: callsPerTurn, onDropped: gauges.dropped });
  const overload = overloadStage(
    {
      maxInFlight,
      maxInFlightPerCaller,
      // Twice: those that their caller waits for, and those that it has reset and that have not ended yet.
      maxInFlightPerConnection: 2 * maxConcurrentStreams,
      maxOpenStreams: limits.maxOpenStreams ?? 4096,
    },
    gauges.streams,
  );
  const service = callMiddleware(
    spanOf,
    [...stages, ...(options.metrics === undefined ? [] : [metricsStage(options.metrics)]), overload],
    turns,
  );
  const server = createServer({
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.max_concurrent_streams": maxConcurrentStreams,
    "grpc.keepalive_time_ms": keepaliveMs,
    "grpc.keepalive_timeout_ms": keepaliveTimeoutMs,
    "grpc.max_connection_idle_ms": connectionIdleMs,
    ...(limits.connectionAgeMs === undefined ? {} : { "grpc.max_connection_age_ms": limits.connectionAgeMs }),
    interceptors: [deadlineInterceptor],
  });
  /** What belongs to the server itself is neither measured nor refused. */
  const own = server.with(callMiddleware(spanOf, stages));

  const add: GrpcServer["add"] = (definition, implementation, { middlewares: special = [] } = {}) => {
    let builder = server.with(service);
    for (const middleware of [...middlewares, ...special]) builder = builder.with(middleware);
    builder.add(definition, implementation);
    const name = "fullName" in definition && typeof definition.fullName === "string" ? definition.fullName : undefined;
    if (name === undefined) return;
    names.push(name);
    health.setStatus("unhealthy", name);
  };

  return {
    add,
    async listen(text) {
      if (address !== undefined) throw new Error("listen() was called before");
      address = parseAddress(text);
      refuseOpenPlaintext(address, options); // S3
      if (address.kind === "unix") await clearStaleSocket(address.path);
      own.add(HealthDefinition, HealthServiceImpl(health));
      if (reflection) {
        const loaded = await loadReflection(names);
        if (loaded === undefined) log.warn("server reflection is off: the descriptors have not been generated");
        else own.add(loaded.definition, loaded.implementation);
      }
      const port = await bind(() => server.listen(formatAddress(parseAddress(text)), credentials), text);
      const bound: Address = address.kind === "unix" ? address : { ...address, port };
      boundTo = formatAddress(bound);
      forgetConnections = limitConnections(bound, limits.maxConnections ?? 4096, gauges.connections);
      if (address.kind === "unix") {
        if (options.socketMode !== undefined) await chmod(address.path, options.socketMode);
      }
      return boundTo;
    },
    setServing: (service, serving) => health.setStatus(serving ? "healthy" : "unhealthy", service),
    async stop({ graceMs }) {
      if (address === undefined || stopStreams.signal.aborted) return;
      forgetConnections();
      for (const name of ["", ...names]) health.setStatus("unhealthy", name);
      const drained = server.shutdown().then(() => true); // S1
      stopStreams.abort(shuttingDown());
      if (await within(drained, graceMs)) return;
      log.warn("calls are still running after the grace; they are cut off", { grace_ms: graceMs });
      stopUnary.abort(shuttingDown());
      if (await within(drained, lastWordMs)) return;
      server.forceShutdown(); // S2
    },
  };
}

function refuseOpenPlaintext(address: Address, { credentials, insecure, log, metrics }: GrpcServerOptions): void {
  if (address.kind === "unix" || credentials !== undefined || isLoopback(address.host)) return;
  if (insecure === true) {
    metrics
      ?.gauge({
        name: "holdfast_insecure_listeners",
        help: "Addresses beyond loopback without TLS.",
        labels: ["address"],
      })
      .set({ address: formatAddress(address) }, 1);
    log.warn("listening without TLS: anyone who reaches this address can act as anyone", {
      address: formatAddress(address),
    });
    return;
  }
  throw new HoldfastError({
    kind: "precondition",
    reason: "INSECURE_ADDRESS",
    message:
      `refusing to listen on ${formatAddress(address)} without TLS: callers could claim any identity. ` +
      "Use a loopback address or a unix socket, or set HOLDFAST_INSECURE=1 on a network that you trust",
    metadata: { address: formatAddress(address) },
  });
}

async function bind(listen: () => Promise<number>, address: string): Promise<number> {
  try {
    return await listen();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const message = `cannot listen on ${address}: ${why}`;
    throw new HoldfastError({ kind: "unavailable", reason: "LISTEN_FAILED", message, metadata: { address }, cause });
  }
}

function shuttingDown(): HoldfastError {
  return new HoldfastError({
    kind: "unavailable",
    reason: shuttingDownReason,
    message: "this server is going down; ask another one, or again in a moment",
  });
}

function within(done: Promise<boolean>, ms: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(false), ms);
    done.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
