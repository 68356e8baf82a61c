/**
 * Ends the connections of peers that show a certificate which does not verify: expired, not valid yet, of another authority, not for
 * clients. Node leaves that to a server that demands no certificate; grpc-js would serve such a peer as one without a name.
 *
 * TP1 When certificates are denied, the connections that have them end with every stream on them. A later connection stays, so that its
 *     calls are told why they are refused (certificate-identity.ts).
 */
import { type TLSSocket, Server as TlsServer } from "node:tls";
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";
import { isUnfit, type Leaf } from "../trust/leaf.ts";
import { createLeafReader } from "../trust/leaf-reader.ts";
import type { IsDenied } from "./certificate-identity.ts";
import { formatIdentity } from "./identity.ts";

export type TlsPeers = (server: unknown) => void;

/** One line a second says as much as thousands. */
const quietMs = 1_000;

export interface TlsPeerOptions {
  readonly log: Logger;
  readonly metrics?: Metrics;
  readonly isDenied?: IsDenied | undefined;
  /** Calls after another certificate is denied; answers how to end it. */
  readonly onDenied?: ((listener: () => void) => () => void) | undefined;
}

/** grpc-js asks for it at each call, and Node takes it apart each time. TLS 1.3 knows no renegotiation: it stays the connection's. */
function keepCertificate(socket: TLSSocket, raw: Uint8Array): void {
  const kept = { raw };
  socket.getPeerCertificate = (() => kept) as unknown as TLSSocket["getPeerCertificate"];
}

export function createTlsPeers({ log, metrics, isDenied, onDenied }: TlsPeerOptions): TlsPeers {
  const read = createLeafReader();
  const open = new Map<TLSSocket, Leaf>();
  const refusals = metrics?.counter({
    name: "holdfast_tls_refused_total",
    help: "Connections that were ended since the certificate of the peer does not verify.",
    labels: ["why"],
  });
  let quietUntil = Number.NEGATIVE_INFINITY;

  const remember = (socket: TLSSocket, der: Uint8Array): void => {
    const { leaf } = read(der);
    if (isUnfit(leaf)) return;
    open.set(socket, leaf);
    socket.once("close", () => open.delete(socket));
  };

  /** TP1 */
  const endDenied = (): void => {
    for (const [socket, leaf] of [...open]) {
      const name = formatIdentity(leaf.id);
      if (isDenied?.(leaf, name) !== true) continue;
      log.warn("the certificate of a caller was denied; its connection was ended", { name, serial: leaf.serial });
      socket.destroy();
    }
  };

  const judge = (socket: TLSSocket): void => {
    const certificate = socket.getPeerX509Certificate();
    if (certificate === undefined) return;
    if (socket.authorized) {
      keepCertificate(socket, certificate.raw);
      if (onDenied !== undefined) remember(socket, certificate.raw);
      return;
    }
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
    if (!(server instanceof TlsServer)) return;
    server.prependListener("secureConnection", judge);
    const stop = onDenied?.(endDenied);
    if (stop !== undefined) server.once("close", stop);
  };
}
