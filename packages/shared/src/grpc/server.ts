/**
 * A gRPC server with everything that every server of Holdfast has: errors with details, a span and a log line a call, the caller's
 * identity and deadline, health, reflection, and an end that comes within a bound.
 *
 * S3 Without credentials nothing but loopback and unix sockets is bound, unless that was asked for by name.
 */

import { chmod } from "node:fs/promises";
import { setLogger } from "@grpc/grpc-js";
import { type CompatServiceDefinition, createServer, type ServerMiddleware } from "nice-grpc";
import { HealthDefinition, HealthServiceImpl, HealthState } from "nice-grpc-server-health";
import { HoldfastError } from "../errors/holdfast-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";
import type { CertificateKeeper } from "../trust/certificate-keeper.ts";
import type { Access } from "./access.ts";
import type { CallExtension, Implementation } from "./call-context.ts";
import {
  type CallLimits,
  type CallSurround,
  createCallSurround,
  defaultMaxConcurrentStreams,
} from "./call-surround.ts";
import { callerInterceptor } from "./caller-interceptor.ts";
import { type CertificateIdentityOptions, createCertificateIdentity } from "./certificate-identity.ts";
import { limitConnections, onListening } from "./connection-limit.ts";
import { type IdentityReader, identityFromMetadata, localIdentity } from "./identity.ts";
import { type Address, formatAddress, parseAddress } from "./listen-address.ts";
import { defaultMaxMessageBytes } from "./message-limits.ts";
import { refuseOpenPlaintext } from "./plain-listener.ts";
import { loadReflection } from "./reflection.ts";
import { createStrangerCalls, type StrangerCalls } from "./stranger-calls.ts";
import { createServerCredentials } from "./tls-credentials.ts";
import { createTlsPeers, type TlsPeerOptions } from "./tls-peers.ts";
import { clearStaleSocket } from "./unix-socket.ts";

export interface ServerLimits extends CallLimits {
  /** Of one message, both ways. 1 MiB; 16 MiB for servers that relay plugin calls. */
  readonly maxMessageBytes?: number;
  /** Connections above are closed as they come. */
  readonly maxConnections?: number;
  /** After this time a client is asked to take another connection; what runs on the old one goes on there. Without it: never. */
  readonly connectionAgeMs?: number;
  /** How soon a peer that vanished without a word is noticed. */
  readonly keepalive?: { readonly timeMs: number; readonly timeoutMs: number };
}

export interface GrpcServerOptions {
  readonly log: Logger;
  readonly metrics?: Metrics;
  readonly identity?: IdentityReader;
  readonly access?: Access;
  readonly limits?: ServerLimits;
  /** Run for every service, after the fixed ones, in this order. */
  readonly middlewares?: readonly CallMiddleware[];
  /** With them every TCP address has TLS, and who calls is read from certificates; a unix socket has neither, and its peer is `local`. */
  readonly certificates?: ServerCertificates;
  /** Binds TCP addresses other than loopback without TLS. */
  readonly insecure?: boolean;
  readonly reflection?: boolean;
  /** For unary calls whose caller sent no deadline. */
  readonly defaultDeadlineMs?: number;
  /** Permissions of a unix socket. */
  readonly socketMode?: number;
}

export interface ServerCertificates
  extends Pick<CertificateIdentityOptions, "isDenied">,
    Pick<TlsPeerOptions, "onDenied"> {
  readonly keeper: CertificateKeeper;
  /** One for all servers of a process; its own when not given. */
  readonly strangers?: StrangerCalls;
}

export type CallMiddleware = ServerMiddleware<object, CallExtension>;

export interface GrpcServer {
  /** For calls that come over a stream of this server, and for nothing else. */
  readonly surround: CallSurround;
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

/** A peer that vanished without a word is noticed while nothing is sent to it. One that is stopped for 20 seconds is not taken for one. */
const patientKeepalive = { timeMs: 60_000, timeoutMs: 30_000 };
/** Without any call; the next call of that client opens another one. */
const connectionIdleMs = 15 * 60_000;

export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { log, limits = {}, middlewares = [], certificates, reflection = true } = options;
  const health = HealthState();
  const names: string[] = [];
  let address: Address | undefined;
  let boundTo = "";
  let stopped = false;
  let forgetConnections: () => void = () => undefined;

  const maxMessageBytes = limits.maxMessageBytes ?? defaultMaxMessageBytes;
  const { timeMs, timeoutMs } = limits.keepalive ?? patientKeepalive;
  let readIdentity = options.identity ?? identityFromMetadata;
  const surround = createCallSurround({
    ...options,
    identity: (call) => readIdentity(call),
    strangers: certificates && (certificates.strangers ?? createStrangerCalls()),
    address: () => boundTo,
  });
  const server = createServer({
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.max_concurrent_streams": limits.maxConcurrentStreams ?? defaultMaxConcurrentStreams,
    "grpc.keepalive_time_ms": timeMs,
    "grpc.keepalive_timeout_ms": timeoutMs,
    "grpc.max_connection_idle_ms": connectionIdleMs,
    ...(limits.connectionAgeMs === undefined ? {} : { "grpc.max_connection_age_ms": limits.connectionAgeMs }),
    interceptors: [callerInterceptor],
  });
  const own = server.with(surround.own);

  const add: GrpcServer["add"] = (definition, implementation, { middlewares: special = [] } = {}) => {
    let builder = server.with(surround.service);
    for (const middleware of [...middlewares, ...special]) builder = builder.with(middleware);
    options.access?.requireRows(definition);
    builder.add(definition, implementation);
    const name = "fullName" in definition && typeof definition.fullName === "string" ? definition.fullName : undefined;
    if (name === undefined) return;
    names.push(name);
    health.setStatus("unhealthy", name);
  };

  return {
    surround,
    add,
    async listen(text) {
      if (address !== undefined) throw new Error("listen() was called before");
      address = parseAddress(text);
      const credentials =
        address.kind === "tcp" && certificates !== undefined ? createServerCredentials(certificates.keeper) : undefined;
      if (certificates !== undefined) readIdentity = identityBy(certificates, address);
      if (credentials === undefined) refuseOpenPlaintext(address, { ...options, insecure: options.insecure, risk }); // S3
      if (address.kind === "unix") await clearStaleSocket(address.path);
      own.add(HealthDefinition, HealthServiceImpl(health));
      if (reflection) {
        const loaded = await loadReflection(names);
        if (loaded === undefined) log.warn("server reflection is off: the descriptors have not been generated");
        else for (const definition of loaded.definitions) own.add(definition, loaded.implementation);
      }
      // Of an address in use the library writes a line of its own; the error says it.
      setLogger({ error: (text: unknown) => log.debug("gRPC", { text: String(text) }) });
      const port = await bind(
        () =>
          onListening(
            credentials === undefined ? () => undefined : createTlsPeers({ ...options, ...certificates }),
            () => server.listen(formatAddress(parseAddress(text)), credentials),
          ),
        text,
      );
      const bound: Address = address.kind === "unix" ? address : { ...address, port };
      boundTo = formatAddress(bound);
      forgetConnections = limitConnections(bound, limits.maxConnections ?? 4096, surround.connections);
      if (address.kind === "unix") {
        if (options.socketMode !== undefined) await chmod(address.path, options.socketMode);
      }
      return boundTo;
    },
    setServing: (service, serving) => health.setStatus(serving ? "healthy" : "unhealthy", service),
    async stop({ graceMs }) {
      if (address === undefined || stopped) return;
      stopped = true;
      forgetConnections();
      for (const name of ["", ...names]) health.setStatus("unhealthy", name);
      const drained = server.shutdown();
      if (!(await surround.stop(graceMs, drained))) server.forceShutdown();
    },
  };
}

const risk = "anyone who reaches this address can act as anyone";

function identityBy({ keeper, isDenied }: ServerCertificates, address: Address): IdentityReader {
  if (address.kind === "unix") return () => localIdentity;
  return createCertificateIdentity({
    trustDomain: () => keeper.current().leaf.id.trustDomain,
    ...(isDenied === undefined ? {} : { isDenied }),
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
