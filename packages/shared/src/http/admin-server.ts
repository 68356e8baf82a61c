/** `/metrics`, `/healthz` (this process turns over) and `/readyz` (it can do its work, or says what is missing). */
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";
import { createGetServer, type GetServer } from "./get-server.ts";

export interface AdminServerOptions {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "text" | "contentType" | "gauge">;
  /** What is missing for the work, empty when ready. Has to answer at once. */
  readonly notReady: () => readonly string[];
  /** Binds addresses other than loopback. */
  readonly insecure?: boolean;
}

export type AdminServer = GetServer;

export function createAdminServer({ log, metrics, notReady, insecure = false }: AdminServerOptions): AdminServer {
  return createGetServer({
    log,
    name: "the admin server",
    hint: "there are /metrics, /healthz and /readyz",
    plain: { insecure, risk: "anyone who reaches it reads the metrics", metrics },
    answers: {
      "/healthz": () => ({ status: 200, body: "ok\n" }),
      "/readyz": () => {
        const missing = notReady();
        return missing.length === 0
          ? { status: 200, body: "ready\n" }
          : { status: 503, body: `${missing.join("\n")}\n` };
      },
      "/metrics": async () => ({ status: 200, body: await metrics.text(), type: metrics.contentType }),
    },
  });
}
