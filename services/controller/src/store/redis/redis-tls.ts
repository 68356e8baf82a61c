/** TLS to a Redis: what is offered to it, what is demanded of it, and what its refusals mean. */
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { type ConnectionOptions, checkServerIdentity, createSecureContext } from "node:tls";
import { accessSettings, type RedisAccess } from "./redis-access.ts";

const contentOf = async (access: RedisAccess, name: "caFile" | "certFile" | "keyFile"): Promise<string | undefined> => {
  const path = access[name];
  if (path === undefined) return undefined;
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new Error(`${accessSettings[name]} cannot be read: ${(error as Error).message}`, { cause: error });
  }
};

/** The files are read for each connection, so that whoever renews a certificate writes there and restarts nothing. */
export const tlsOptions = async (access: RedisAccess, host: string): Promise<ConnectionOptions> => {
  const [ca, cert, key] = await Promise.all([
    contentOf(access, "caFile"),
    contentOf(access, "certFile"),
    contentOf(access, "keyFile"),
  ]);
  const name = access.serverName ?? host;
  const files = {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
  const named = [access.caFile, access.certFile, access.keyFile].filter((file) => file !== undefined).join(", ");
  try {
    return {
      secureContext: createSecureContext({ ...files, minVersion: "TLSv1.3" }),
      // An address is no name that a client may ask for; it is compared with the certificate all the same.
      ...(isIP(name) === 0 ? { servername: name } : {}),
      checkServerIdentity: (_, certificate) => checkServerIdentity(name, certificate),
    };
  } catch (error) {
    throw new Error(
      `${named} cannot be used: ${(error as Error).message}: give the PEM of a certificate and of its own key`,
      {
        cause: error,
      },
    );
  }
};

const unknownAuthority = `${accessSettings.caFile} has to hold the authority that signed the server's certificate`;
const clientCertificate = `${accessSettings.certFile} and ${accessSettings.keyFile} have to name one that the server's tls-ca-cert-file accepts`;
const noTls = "correct the port, or use redis:// where the network is your own";
const otherName = `give the server a certificate for that name, or set ${accessSettings.serverName} to a name that it bears`;

/** By the code that Node gives such an error, with words where openssl has none for people. */
const meanings: Readonly<Record<string, readonly [what: string, cure: string]>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ["the server's certificate is of an unknown authority", unknownAuthority],
  UNABLE_TO_GET_ISSUER_CERT: ["the server's certificate is of an unknown authority", unknownAuthority],
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ["the server's certificate is of an unknown authority", unknownAuthority],
  SELF_SIGNED_CERT_IN_CHAIN: ["the server's certificate is of an unknown authority", unknownAuthority],
  DEPTH_ZERO_SELF_SIGNED_CERT: ["the server's certificate is signed by itself", unknownAuthority],
  CERT_SIGNATURE_FAILURE: ["the server's certificate is of another authority of that name", unknownAuthority],
  CERT_HAS_EXPIRED: ["the server's certificate has expired", "renew it, or correct the clock of this host"],
  CERT_NOT_YET_VALID: ["the server's certificate is not valid yet", "correct it, or the clock of this host"],
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: ["the server wants a client certificate", clientCertificate],
  ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: [
    "the server does not know the authority of the client certificate",
    clientCertificate,
  ],
  ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED: ["the client certificate has expired", clientCertificate],
  ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: ["the server does not accept the client certificate", clientCertificate],
  ERR_SSL_WRONG_VERSION_NUMBER: ["the server does not speak TLS there", noTls],
  ERR_SSL_PACKET_LENGTH_TOO_LONG: ["the server does not speak TLS there", noTls],
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: ["the server does not speak TLS 1.3", "let it: tls-protocols TLSv1.3"],
  ETIMEDOUT: ["no TLS handshake in time", noTls],
};

/** What an error of a connection with TLS means, with the cure; undefined = it is none of these. */
export const meaningOfTls = (error: Error): string | undefined => {
  const { code } = error as { code?: unknown };
  // It names the name that was wanted, and those of the certificate.
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return `${error.message}: ${otherName}`;
  const [what, cure] = (typeof code === "string" ? meanings[code] : undefined) ?? [];
  return what === undefined ? undefined : `${what}: ${cure}`;
};
