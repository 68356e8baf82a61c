/**
 * A socket on which one program of this host posts its calls: HTTP POST, a bounded body, one JSON answer.
 *
 * PS1 Bodies, connections and the time to send a request are bounded. PS2 An answer that did not get through is told to the one who gave it.
 */
import { chmod, mkdir } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import path from "node:path";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { clearStaleSocket } from "@holdfast/shared/grpc/unix-socket";
import type { Logger } from "@holdfast/shared/log/logger";

export interface Reply {
  readonly status: number;
  readonly body: object;
  /** PS2 */
  readonly unheard?: () => void;
}

export interface PostServerOptions {
  /** The setting that names the socket. */
  readonly setting: string;
  /** Who calls, for messages. */
  readonly program: string;
  readonly contentType: string;
  readonly serves: (path: string) => boolean;
  readonly answer: (path: string, body: string, signal: AbortSignal) => Promise<Reply>;
  readonly refusal: (error: unknown) => Reply;
  readonly log: Logger;
  /** The agent's life. */
  readonly signal: AbortSignal;
}

export interface PostServer {
  listen(socket: string): Promise<void>;
  stop(): Promise<void>;
}

/** It is not what the program sends. */
export class BadCall extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** PS1 */
const bounds = { bodyBytes: 64 * 1024, headerBytes: 16 * 1024, connections: 128, requestMs: 10_000 };

export function createPostServer(options: PostServerOptions): PostServer {
  const { setting, program, contentType, serves, answer, refusal, log, signal: life } = options;

  const send = (response: ServerResponse, { status, body }: Reply): void => {
    if (response.destroyed || response.headersSent) return;
    response.writeHead(status, { "content-type": contentType, "cache-control": "no-store" }).end(JSON.stringify(body));
  };

  const replied = async (request: IncomingMessage, signal: AbortSignal): Promise<Reply> => {
    const at = (request.url ?? "").split("?")[0] ?? "";
    try {
      if (!serves(at)) throw new BadCall(404, `${at.slice(0, 64)} is no call of ${program}`);
      if (request.method !== "POST") throw new BadCall(405, "POST only");
      return await answer(at, await readBody(request), signal);
    } catch (error) {
      return refusal(error);
    }
  };

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const gone = new AbortController();
    response.once("close", () => {
      if (!response.writableFinished) gone.abort(new DOMException(`${program} is gone`, "AbortError"));
    });
    const reply = await replied(request, AbortSignal.any([gone.signal, life]));
    if (reply.unheard !== undefined) tellUnheard(response, reply.unheard);
    send(response, reply);
  };

  /** PS2 */
  const tellUnheard = (response: ServerResponse, unheard: () => void): void => {
    const unless = (): void => {
      if (!response.writableFinished) unheard();
    };
    if (response.destroyed) unless();
    else response.once("close", unless);
  };

  const server = createServer({ maxHeaderSize: bounds.headerBytes }, (request, response) => {
    serve(request, response).catch((error: unknown) => {
      log.error(`${program} could not be answered`, { error });
      response.destroy();
    });
  });
  server.requestTimeout = bounds.requestMs;
  server.headersTimeout = bounds.requestMs;
  server.maxConnections = bounds.connections;

  return {
    async listen(socket) {
      await mkdir(path.dirname(socket), { recursive: true, mode: 0o755 });
      await clearStaleSocket(socket);
      await new Promise<void>((resolve, reject) => {
        server.once("error", (error) => reject(notListening(setting, socket, error.message)));
        server.listen(socket, resolve);
      });
      await chmod(socket, 0o660);
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const notListening = (setting: string, socket: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "LISTEN_FAILED",
    message: `${setting}: cannot listen on ${socket}: ${why}`,
    metadata: { address: socket },
  });

const readBody = async (request: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bounds.bodyBytes) throw new BadCall(413, `the body is longer than ${bounds.bodyBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
};

/** A refusal in one line, with what to do. */
export const refusalWords = (error: unknown): string => {
  if (isHoldfastError(error)) {
    const cure = error.metadata["clear_with"] ?? "";
    return `${error.reason}: ${error.message}${cure === "" ? "" : `; ${cure}`}`;
  }
  return "INTERNAL: the agent could not do it; its log has the details";
};
