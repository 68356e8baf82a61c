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
import { deadlineInterceptor, deadlineStage } from "./deadline-server.ts";
import { type IdentityReader, identityFromMetadata } from "./identity.ts";
import { identityStage } from "./identity-stage.ts";
import { type Address, formatAddress, isLoopback, parseAddress } from "./listen-address.ts";
import { logStage, shuttingDownReason } from "./log-stage.ts";
import { defaultMaxMessageBytes } from "./message-limits.ts";
import { metricsStage } from "./metrics-stage.ts";
import { overloadStage } from "./overload-stage.ts";
import { loadReflection } from "./reflection.ts";
import { createServerSpans } from "./trace-server.ts";
import { clearStaleSocket } from "./unix-socket.ts";

export interface ServerLimits {
  /** Of one message, both ways. 1 MiB; 16 MiB for servers that relay plugin calls. */
  readonly maxMessageBytes?: number;
  /** Calls in flight on one connection; waiting streams count too, so that it must be well above what a scheduler watches. */
  readonly maxConcurrentStreams?: number;
  /** Unary calls in flight, of all callers and of one; those above are refused with OVERLOADED. */
  readonly maxInFlight?: number;
  readonly maxInFlightPerCaller?: number;
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

/** Between the abort of what still runs and the end of its connections: time to send the answer. */
const lastWordMs = 250;

export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { log, limits = {}, middlewares = [], credentials, reflection = true } = options;
  const stopStreams = new AbortController();
  const stopUnary = new AbortController();
  const health = HealthState();
  const names: string[] = [];
  let address: Address | undefined;

  const maxMessageBytes = limits.maxMessageBytes ?? defaultMaxMessageBytes;
  const { maxInFlight = 4096, maxInFlightPerCaller = maxInFlight } = limits;
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
  const service = callMiddleware(spanOf, [
    ...stages,
    ...(options.metrics === undefined ? [] : [metricsStage(options.metrics)]),
    overloadStage({ maxInFlight, maxInFlightPerCaller }),
  ]);
  const server = createServer({
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.max_concurrent_streams": limits.maxConcurrentStreams ?? 1024,
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
      if (address.kind === "unix") {
        if (options.socketMode !== undefined) await chmod(address.path, options.socketMode);
        return formatAddress(address);
      }
      return formatAddress({ ...address, port });
    },
    setServing: (service, serving) => health.setStatus(serving ? "healthy" : "unhealthy", service),
    async stop({ graceMs }) {
      if (address === undefined || stopStreams.signal.aborted) return;
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
