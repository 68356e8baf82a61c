/**
 * What grpc-js does TLS with, of certificates that are replaced while it runs: a connection that is open goes on with those that it began
 * with, the next one takes the new ones.
 *
 * TC1 A server asks for a client certificate and demands none; one that does not verify ends its connection (tls-peers.ts).
 * TC2 No session is resumed: a resumed one is believed without another look at its certificate, whose root may be gone by then.
 * TC3 A client speaks to a controller of its own trust domain and to nothing else, however its certificate was signed.
 */
import { constants } from "node:crypto";
import { createSecureContext, type PeerCertificate } from "node:tls";
import { ChannelCredentials, ServerCredentials } from "@grpc/grpc-js";
import type { CertificateKeeper } from "../trust/certificate-keeper.ts";
import { isUnfit, readLeaf } from "../trust/leaf.ts";
import { formatSpiffeId } from "../trust/spiffe-id.ts";
import { createFreshCredentials } from "./fresh-credentials.ts";

type Watcher = Parameters<ServerCredentials["_addWatcher"]>[0];

const materialOf = (keeper: CertificateKeeper) => {
  const { chain, key, roots } = keeper.current();
  return { cert: chain, key, ca: roots };
};

/** The library's own ones of files take no lowest version of TLS and leave resumption on. */
export function createServerCredentials(keeper: CertificateKeeper): ServerCredentials {
  const watchers = new Map<Watcher, () => void>();
  const context = () => ({
    ...materialOf(keeper),
    minVersion: "TLSv1.3" as const,
    secureOptions: constants.SSL_OP_NO_TICKET,
  }); // TC2
  const { cert, key, ca } = materialOf(keeper);
  // Should the library ask for something that is not replaced here, the answer is one that demands a certificate.
  const strict = ServerCredentials.createSsl(
    Buffer.from(ca),
    [{ cert_chain: Buffer.from(cert), private_key: Buffer.from(key) }],
    true,
  );
  return Object.assign(strict, {
    _getConstructorOptions: () => ({ requestCert: true, rejectUnauthorized: false }), // TC1
    _getSecureContextOptions: context,
    _addWatcher(watcher: Watcher) {
      watchers.set(
        watcher,
        keeper.onChange(() => watcher(context())),
      );
    },
    _removeWatcher(watcher: Watcher) {
      watchers.get(watcher)?.();
      watchers.delete(watcher);
    },
    _equals: (other: ServerCredentials) => other === strict,
  });
}

export function createChannelCredentials(keeper: CertificateKeeper): ChannelCredentials {
  return createFreshCredentials(() => materialOf(keeper), {
    checkServerIdentity: (_host, certificate) => judgeServer(certificate, keeper.current().leaf.id.trustDomain),
  });
}

/** Of a client that has no certificate yet, and one root. Without a trust domain it is that of the server's own certificate. */
export const createPinnedCredentials = (root: string, trustDomain: string | undefined): ChannelCredentials =>
  ChannelCredentials.createFromSecureContext(createSecureContext({ ca: root, minVersion: "TLSv1.3" }), {
    checkServerIdentity: (_host, certificate) => judgeServer(certificate, trustDomain),
  });

/** TC3. Node calls it once the chain is verified, and compares no URI itself. */
function judgeServer({ raw }: PeerCertificate, trustDomain: string | undefined): Error | undefined {
  const leaf = readLeaf(raw);
  if (isUnfit(leaf)) return new Error(`the server's certificate names nobody: ${leaf.wrong}`);
  const { id } = leaf;
  if (trustDomain !== undefined && id.trustDomain !== trustDomain)
    return new Error(`the server is ${formatSpiffeId(id)}, of another trust domain than ${trustDomain}, which is ours`);
  if (id.role !== "controller") return new Error(`the server is ${formatSpiffeId(id)}, and no controller`);
  return undefined;
}
