/**
 * Whether a certificate, its key and the trust roots can be used together by this process. What is taken here is handed to TLS: a pair
 * that does not fit would end every new connection.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { type CredentialTexts, isSelfSigned, type Unusable } from "./credential-files.ts";
import { isUnfit, type Leaf, readLeaf } from "./leaf.ts";
import { type CertifiedRole, formatSpiffeId } from "./spiffe-id.ts";

export interface Credentials {
  /** PEM: the leaf, then its intermediates. */
  readonly chain: string;
  readonly key: string;
  /** PEM. */
  readonly roots: string;
  readonly leaf: Leaf;
  /** From when until when the leaf and all that it rests on are valid. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/** What this process has to be called. */
export interface WantedName {
  readonly roles: readonly CertifiedRole[];
  /** Any, if absent. */
  readonly name?: string;
}

export function judgeCredentials(texts: CredentialTexts, wanted: WantedName): Credentials | Unusable {
  try {
    const [certificate, ...intermediates] = texts.chain.map((pem) => new X509Certificate(pem));
    if (certificate === undefined) return { wrong: "there is no certificate" };
    if (!certificate.checkPrivateKey(createPrivateKey(texts.key)))
      return { wrong: "the key is not that of the certificate" };
    const leaf = readLeaf(certificate.raw);
    if (isUnfit(leaf)) return { wrong: `the certificate names nobody: ${leaf.wrong}` };
    const misnamed = judgeName(leaf, wanted);
    if (misnamed !== undefined) return { wrong: misnamed };
    const path = pathToRoot(certificate, intermediates, texts.roots);
    if (path === undefined)
      return {
        wrong: `the certificate ${formatSpiffeId(leaf.id)} does not lead to one of the trust roots: a root that is signed by itself has to be among them`,
      };
    return {
      chain: texts.chain.join(""),
      key: texts.key,
      roots: texts.roots.join(""),
      leaf,
      notBefore: Math.max(...path.map(({ validFromDate }) => validFromDate.getTime())),
      notAfter: Math.min(...path.map(({ validToDate }) => validToDate.getTime())),
    };
  } catch (error) {
    return { wrong: error instanceof Error ? error.message : String(error) };
  }
}

/** What is wrong with the time of a certificate; undefined: it is valid. */
export function judgeTime({ notBefore, notAfter }: Pick<Credentials, "notBefore" | "notAfter">, now: number) {
  const clock = `, and the clock of this host says ${new Date(now).toISOString()}`;
  if (now >= notAfter) return `it ended at ${new Date(notAfter).toISOString()}${clock}`;
  if (now < notBefore) return `it begins at ${new Date(notBefore).toISOString()}${clock}`;
  return undefined;
}

function judgeName({ id }: Leaf, { roles, name }: WantedName): string | undefined {
  const shown = formatSpiffeId(id);
  if (!roles.includes(id.role)) return `the certificate is of ${shown}, and this process is a ${roles.join(" or a ")}`;
  if (name !== undefined && id.name !== name) return `the certificate is of ${shown}, and this is ${id.role}/${name}`;
  return undefined;
}

/** No chain of ours has more. */
const maxPath = 8;

/** From the leaf to a trust root that is signed by itself, as TLS demands it. */
function pathToRoot(
  leaf: X509Certificate,
  intermediates: readonly X509Certificate[],
  roots: readonly string[],
): readonly X509Certificate[] | undefined {
  const anchors = roots.map((pem) => ({ certificate: new X509Certificate(pem), ends: isSelfSigned(pem) }));
  const candidates = [
    ...intermediates.map((certificate) => ({ certificate, ends: false })),
    ...anchors.toSorted((one, other) => Number(other.ends) - Number(one.ends)),
  ];
  const path = [leaf];
  while (path.length < maxPath) {
    const last = path.at(-1) ?? leaf;
    const issuers = candidates.filter(({ certificate }) => isIssuedBy(last, certificate));
    const issuer = issuers.find(({ ends }) => ends) ?? issuers[0];
    if (issuer === undefined) return undefined;
    path.push(issuer.certificate);
    if (issuer.ends) return path;
  }
  return undefined;
}

export const isIssuedBy = (certificate: X509Certificate, issuer: X509Certificate): boolean =>
  issuer.ca && certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
