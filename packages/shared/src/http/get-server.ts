/** A small HTTP server that answers a few paths, GET and HEAD alone. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { HoldfastError, isHoldfastError } from "../errors/holdfast-error.ts";
import { bareHost, formatAddress, isLoopback, parseAddress } from "../grpc/listen-address.ts";
import { type PlainListener, refuseOpenPlaintext } from "../grpc/plain-listener.ts";
import type { StrangerCalls } from "../grpc/stranger-calls.ts";
import type { Logger } from "../log/logger.ts";

export interface GetAnswer {
  readonly status: number;
  readonly body: string;
  /** Plain text unless told. */
  readonly type?: string;
  /** Nothing keeps it unless told. */
  readonly cache?: string;
}

export interface GetServerOptions {
  readonly log: Logger;
  /** For people, e.g. "the admin server". */
  readonly name: string;
  /** By path, without a query. */
  readonly answers: Readonly<Record<string, () => GetAnswer | Promise<GetAnswer>>>;
  /** What there is, for whoever asks for something else. */
  readonly hint: string;
  /** Where others have certificates: those who ask here have none. A proxy on this host asks for many, and bounds them itself. */
  readonly strangers?: StrangerCalls | undefined;
  /** It has no TLS. */
  readonly plain: Omit<PlainListener, "log">;
}

export interface GetServer {
  /** Answers the address it is bound to, with the real port. */
  listen(address: string): Promise<string>;
  stop(): Promise<void>;
}

const maxHeaderSize = 8 * 1024;

export function createGetServer({ log, name, answers, hint, strangers, plain }: GetServerOptions): GetServer {
  const server = createServer({ maxHeaderSize }, (request: IncomingMessage, response) => {
    const tooMany = strangers && refusalOf(strangers, request, response);
    if (tooMany !== undefined)
      return send(response.setHeader("retry-after", "1"), { status: 429, body: `${tooMany}\n` });
    const path = (request.url ?? "").split("?")[0] ?? "";
    const answer = Object.hasOwn(answers, path) ? answers[path] : undefined;
    if (answer === undefined) return send(response, { status: 404, body: `${hint}\n` });
    if (request.method !== "GET" && request.method !== "HEAD")
      return send(response, { status: 405, body: "GET only\n" });
    Promise.resolve()
      .then(answer)
      .then((body) => send(response, body))
      .catch((error: unknown) => {
        log.error(`${name} could not answer`, { path, error });
        send(response, { status: 500, body: "internal error; the log has the details\n" });
      });
  });
  server.requestTimeout = 5000;
  server.maxConnections = 64;

  return {
    async listen(text) {
      const address = parseAddress(text);
      if (address.kind === "unix") throw refused(text, `${name} listens on host:port only`);
      refuseOpenPlaintext(address, { ...plain, log });
      return await new Promise((resolve, reject) => {
        server.once("error", (error) => reject(refused(text, error.message)));
        server.listen(address.port, bareHost(address.host), () => {
          const bound = server.address();
          const port = typeof bound === "object" && bound !== null ? bound.port : address.port;
          resolve(formatAddress({ ...address, port }));
        });
      });
    },
    stop() {
      return new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

/** Why it is not answered. */
function refusalOf(strangers: StrangerCalls, request: IncomingMessage, response: ServerResponse): string | undefined {
  const address = (request.socket.remoteAddress ?? "").replace(/^::ffff:/i, "");
  if (isLoopback(address === "::1" ? "[::1]" : address)) return undefined;
  try {
    response.once("close", strangers.begin(address));
    return undefined;
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    return error.message;
  }
}

function send(response: ServerResponse, { status, body, type, cache }: GetAnswer): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const headers = { "content-type": type ?? "text/plain; charset=utf-8", "cache-control": cache ?? "no-store" };
  response.writeHead(status, headers).end(body);
}

function refused(address: string, why: string): HoldfastError {
  const message = `cannot listen on ${address}: ${why}`;
  return new HoldfastError({ kind: "precondition", reason: "LISTEN_FAILED", message, metadata: { address } });
}
