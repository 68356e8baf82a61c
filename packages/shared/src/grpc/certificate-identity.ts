/**
 * Who calls, by the certificate that TLS has verified. What the caller says of itself gives nothing: it has to agree with the certificate,
 * or the call is refused, so that no claim is taken for accepted.
 */
import { HoldfastError } from "../errors/holdfast-error.ts";
import { isUnfit } from "../trust/leaf.ts";
import { createLeafReader } from "../trust/leaf-reader.ts";
import { peerHeader } from "./caller-interceptor.ts";
import {
  anonymous,
  type CallerCertificate,
  formatIdentity,
  type Identity,
  type IdentityReader,
  identityHeader,
} from "./identity.ts";

/** `name` is `role/name`. */
export type IsDenied = (certificate: Pick<CallerCertificate, "serial" | "notBefore">, name: string) => boolean;

export interface CertificateIdentityOptions {
  /** Of this process's own certificate; asked for at each call, as the certificate may be replaced. */
  readonly trustDomain: () => string;
  readonly now?: () => number;
  /** Asked at each call: a connection outlives the moment at which a certificate is denied. */
  readonly isDenied?: IsDenied;
}

export function createCertificateIdentity(options: CertificateIdentityOptions): IdentityReader {
  const { trustDomain, now = Date.now, isDenied = () => false } = options;
  const read = createLeafReader();
  const known = new WeakMap<object, Identity>();

  const identityOf = (base64: string): Identity => {
    const found = read(Buffer.from(base64, "base64"));
    const { leaf, fingerprint } = found;
    if (isUnfit(leaf))
      throw refused("CERTIFICATE_REFUSED", `the certificate of the caller names nobody: ${leaf.wrong}`);
    const before = known.get(leaf);
    if (before !== undefined) return before;
    const { id, serial, notBefore, notAfter } = leaf;
    const certificate = { trustDomain: id.trustDomain, serial, notBefore, notAfter, fingerprint };
    const identity = { role: id.role, name: id.name, certificate };
    known.set(leaf, identity);
    return identity;
  };

  return ({ metadata }) => {
    const peer = metadata.get(peerHeader);
    const identity = peer === undefined ? anonymous : identityOf(peer);
    const claimed = metadata.get(identityHeader);
    if (claimed !== undefined && claimed !== formatIdentity(identity))
      throw refused(
        "IDENTITY_FORGED",
        `${identityHeader} says ${claimed.slice(0, 200)}, and the certificate of the caller ${peer === undefined ? "is missing" : `says ${formatIdentity(identity)}`}: leave it out`,
      );
    const { certificate } = identity;
    if (certificate === undefined) return identity;
    const wrong = judge(certificate, identity, trustDomain(), now());
    if (wrong !== undefined) throw refused("CERTIFICATE_REFUSED", wrong);
    if (isDenied(certificate, formatIdentity(identity)))
      throw refused(
        "CERTIFICATE_DENIED",
        `certificate ${certificate.serial} of ${formatIdentity(identity)} is on the deny list; get another one`,
      );
    return identity;
  };
}

function judge(
  { trustDomain, notBefore, notAfter }: CallerCertificate,
  { role, name }: Identity,
  own: string,
  now: number,
): string | undefined {
  const shown = formatIdentity({ role, name });
  if (trustDomain !== own)
    return `${shown} is of trust domain ${trustDomain}, and this installation is ${own}: get a certificate of it`;
  if (now >= notAfter)
    return `the certificate of ${shown} ended at ${new Date(notAfter).toISOString()}, and the clock here says ${new Date(now).toISOString()}: renew it`;
  if (now < notBefore)
    return `the certificate of ${shown} begins at ${new Date(notBefore).toISOString()}: compare the clocks of both hosts`;
  return undefined;
}

const refused = (reason: string, message: string): HoldfastError =>
  new HoldfastError({ kind: "unauthenticated", reason, message });
