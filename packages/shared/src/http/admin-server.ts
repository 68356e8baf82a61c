/** `/metrics`, `/healthz` (this process turns over) and `/readyz` (it can do its work, or says what is missing). */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { HoldfastError } from "../errors/holdfast-error.ts";
import { formatAddress, parseAddress } from "../grpc/listen-address.ts";
import { refuseOpenPlaintext } from "../grpc/plain-listener.ts";
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";

export interface AdminServerOptions {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "text" | "contentType" | "gauge">;
  /** What is missing for the work, empty when ready. Has to answer at once. */
  readonly notReady: () => readonly string[];
  /** Binds addresses other than loopback. */
  readonly insecure?: boolean;
}

export interface AdminServer {
  /** Answers the address it is bound to, with the real port. */
  listen(address: string): Promise<string>;
  stop(): Promise<void>;
}

export function createAdminServer({ log, metrics, notReady, insecure = false }: AdminServerOptions): AdminServer {
  const answers: Readonly<Record<string, (response: ServerResponse) => Promise<void> | void>> = {
    "/healthz": (response) => send(response, 200, "ok\n"),
    "/readyz": (response) => {
      const missing = notReady();
      send(response, missing.length === 0 ? 200 : 503, missing.length === 0 ? "ready\n" : `${missing.join("\n")}\n`);
    },
    "/metrics": async (response) => send(response, 200, await metrics.text(), metrics.contentType),
  };

  const server = createServer((request: IncomingMessage, response) => {
    const path = (request.url ?? "").split("?")[0] ?? "";
    const answer = Object.hasOwn(answers, path) ? answers[path] : undefined;
    if (answer === undefined) return send(response, 404, "there are /metrics, /healthz and /readyz\n");
    if (request.method !== "GET" && request.method !== "HEAD") return send(response, 405, "GET only\n");
    Promise.resolve(answer(response)).catch((error: unknown) => {
      log.error("the admin server could not answer", { path, error });
      send(response, 500, "internal error; the log has the details\n");
    });
  });
  server.requestTimeout = 5000;
  server.maxConnections = 64;

  return {
    async listen(text) {
      const address = parseAddress(text);
      if (address.kind === "unix") throw refused(text, "the admin server listens on host:port only");
      refuseOpenPlaintext(address, { insecure, risk: "anyone who reaches it reads the metrics", log, metrics });
      return await new Promise((resolve, reject) => {
        server.once("error", (error) => reject(refused(text, error.message)));
        server.listen(address.port, address.host.replace(/^\[|\]$/g, ""), () => {
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

function send(response: ServerResponse, status: number, body: string, type = "text/plain; charset=utf-8"): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(body);
}

function refused(address: string, why: string): HoldfastError {
  const message = `cannot listen on ${address}: ${why}`;
  return new HoldfastError({ kind: "precondition", reason: "LISTEN_FAILED", message, metadata: { address } });
}
