/**
 * Ends the connections of peers that show a certificate which does not verify: expired, not valid yet, of another authority, not for
 * clients. Node leaves that to a server that demands no certificate; grpc-js would serve such a peer as one without a name.
 */
import { type TLSSocket, Server as TlsServer } from "node:tls";
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";

export type TlsPeers = (server: unknown) => void;

/** One line a second says as much as thousands. */
const quietMs = 1_000;

export function createTlsPeers({ log, metrics }: { readonly log: Logger; readonly metrics?: Metrics }): TlsPeers {
  const refusals = metrics?.counter({
    name: "holdfast_tls_refused_total",
    help: "Connections that were ended since the certificate of the peer does not verify.",
    labels: ["why"],
  });
  let quietUntil = Number.NEGATIVE_INFINITY;

  const judge = (socket: TLSSocket): void => {
    if (socket.authorized || socket.getPeerX509Certificate() === undefined) return;
    const why = String(socket.authorizationError);
    const peer = socket.remoteAddress;
    socket.destroy();
    refusals?.inc({ why });
    const now = performance.now();
    if (now < quietUntil) return;
    quietUntil = now + quietMs;
    log.warn("the certificate of a caller does not verify; its connection was ended", { peer, why });
  };
  return (server) => {
    // Before the library's own listener: nothing of the connection is read.
    if (server instanceof TlsServer) server.prependListener("secureConnection", judge);
  };
}
