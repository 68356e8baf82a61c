/**
 * TLS of a client whose certificate and trust roots are replaced while it runs: each connection is made with those of its moment. The
 * library's own way takes no lowest version of TLS, and one that is older is never spoken here.
 */
import { createSecureContext, type SecureContextOptions } from "node:tls";
import { CallCredentials, ChannelCredentials, type VerifyOptions } from "@grpc/grpc-js";

export type TlsMaterial = Pick<SecureContextOptions, "ca" | "cert" | "key">;

/** Asks at once too, so that what cannot be used is a fault of the start. */
export function createFreshCredentials(material: () => TlsMaterial, verify: VerifyOptions = {}): ChannelCredentials {
  const ofNow = () =>
    ChannelCredentials.createFromSecureContext(createSecureContext({ ...material(), minVersion: "TLSv1.3" }), verify);
  const credentials = ofNow();
  const connector: ChannelCredentials["_createSecureConnector"] = (target, options, callCredentials) => ({
    connect: async (socket) => await ofNow()._createSecureConnector(target, options, callCredentials).connect(socket),
    waitForReady: () => Promise.resolve(),
    getCallCredentials: () => callCredentials ?? CallCredentials.createEmpty(),
    destroy: () => undefined,
  });
  return Object.assign(credentials, { _createSecureConnector: connector });
}
