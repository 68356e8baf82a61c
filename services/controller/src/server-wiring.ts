/** A part of the composition root: what listens. */
import { identityFromMetadata, identityOfLocalSocket } from "@holdfast/shared/grpc/identity";
import { createGrpcServer, type GrpcServer } from "@holdfast/shared/grpc/server";
import { createAdminServer } from "@holdfast/shared/http/admin-server";
import type { Lifecycle } from "@holdfast/shared/lifecycle";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { ControllerConfig } from "./config.ts";
import type { StoreGate } from "./ports.ts";

export interface ServerParts {
  readonly config: ControllerConfig;
  readonly gate: StoreGate;
  readonly lifecycle: Pick<Lifecycle, "start">;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** Callers who sent no deadline may ask for the longest wait that there is. */
const defaultDeadlineMs = 11 * 60_000;

/** Clients spread anew over the controllers, and take addresses that changed. Watches and waits go on where they are. */
const connectionAgeMs = 3_600_000;

export interface Servers {
  readonly server: GrpcServer;
  /** Serves those, and says so; answers where it listens. */
  listen(services: readonly string[]): Promise<string>;
}

export const wireServers = ({ config, gate, lifecycle, log, metrics }: ServerParts): Servers => {
  const { insecure } = config;
  const server = createGrpcServer({
    log,
    metrics,
    insecure,
    // Whoever may open a unix socket is a local program, unless it says more of itself.
    identity: config.listen.startsWith("unix:") ? identityOfLocalSocket : identityFromMetadata,
    defaultDeadlineMs,
    limits: {
      maxInFlight: config.maxInFlight,
      maxInFlightPerCaller: config.maxInFlightPerCaller,
      maxConcurrentStreams: config.maxStreamsPerConnection,
      maxConnections: config.maxConnections,
      connectionAgeMs,
    },
  });
  return {
    server,
    async listen(services) {
      let address = "";
      await lifecycle.start("gRPC", async () => {
        address = await server.listen(config.listen);
        return () => server.stop({ graceMs: config.stopGrace });
      });
      await lifecycle.start("admin", async () => {
        const notReady = () => (gate.state().open ? [] : [gate.state().reason]);
        const admin = createAdminServer({ log, metrics, insecure, notReady });
        log.info("admin listening", { address: await admin.listen(config.adminListen) });
        return () => admin.stop();
      });
      for (const service of ["", ...services]) server.setServing(service, true);
      return address;
    },
  };
};
