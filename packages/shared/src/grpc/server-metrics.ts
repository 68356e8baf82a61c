/** What a server has open. Told as it changes: a service may have two servers, and one set of metrics. */
import type { Metrics } from "../metrics.ts";

export interface ServerGauges {
  connections(open: number): void;
  streams(open: number): void;
  dropped(): void;
}

const nothing = (): void => undefined;
const unmeasured: ServerGauges = { connections: nothing, streams: nothing, dropped: nothing };

/** `address` is asked for each time: it is known once the server listens. */
export function createServerGauges(metrics: Metrics | undefined, address: () => string): ServerGauges {
  if (metrics === undefined) return unmeasured;
  const connections = metrics.gauge({
    name: "holdfast_grpc_server_connections",
    help: "Connections that are open.",
    labels: ["address"],
  });
  const streams = metrics.gauge({
    name: "holdfast_grpc_server_streams",
    help: "Streams that have not ended.",
    labels: ["address"],
  });
  const dropped = metrics.counter({
    name: "holdfast_grpc_server_dropped_total",
    help: "Calls whose caller was gone before they began: they did nothing.",
    labels: ["address"],
  });
  return {
    connections: (open) => connections.set({ address: address() }, open),
    streams: (open) => streams.set({ address: address() }, open),
    dropped: () => dropped.inc({ address: address() }),
  };
}
