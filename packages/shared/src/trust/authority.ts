/**
 * Authorities, and what they issue. A root signs authorities that issue, and its key stays offline; one that issues signs leaves, for at
 * most 90 days.
 *
 * AU1 A leaf ends no later than the authority that signed it.
 * AU2 What an authority is, is read from its certificate and checked before it signs.
 */
import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { type CredentialTexts, isUnusable, readCredentialTexts } from "./credential-files.ts";
import { isIssuedBy } from "./judge-credentials.ts";
import { generateKey, makeCertificate, urisIn } from "./make-certificate.ts";
import { formatSpiffeId, isTrustDomain, type SpiffeId } from "./spiffe-id.ts";

const day = 24 * 3_600_000;
export const leafTtlMs = day;
export const issuingTtlMs = 90 * day;
const rootTtlMs = 3_650 * day;

/** Hosts whose clocks are behind by less take a new certificate at once. */
export const backdatedMs = 5 * 60_000;

export interface Authority extends CredentialTexts {
  readonly trustDomain: string;
  /** Of its own certificate. */
  readonly notAfter: number;
  /** Of the root that it leads to. */
  readonly pin: string;
  /** PEM of that root. */
  readonly root: string;
}

export interface LeafWish {
  readonly identity: Pick<SpiffeId, "role" | "name">;
  /** PEM of its public key, or of both. */
  readonly key: string;
  readonly ttlMs: number;
  readonly now: number;
  /** Not before this, where an older certificate of the same name was revoked at that moment. */
  readonly after?: number | undefined;
}

/** What is wrong with an authority, in words for the person who configured it. */
export class AuthorityProblem extends Error {
  /** Of its time alone: a renewal, or a clock that is put right, ends it. */
  readonly passing: boolean;

  constructor(message: string, passing = false) {
    super(message);
    this.name = "AuthorityProblem";
    this.passing = passing;
  }
}

export const pinPattern = /^sha256:[0-9a-f]{64}$/;

/** `sha256:` and the digest of the public key: the same over all certificates of one key. */
export const pinOf = ({ publicKey }: X509Certificate): string =>
  `sha256:${createHash("sha256")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest("hex")}`;

const scheme = "spiffe://";

const trustDomainOf = async (certificate: string): Promise<string> => {
  const uris = await urisIn(certificate);
  const [uri = ""] = uris;
  const trustDomain = uri.slice(scheme.length);
  if (uris.length === 1 && uri.startsWith(scheme) && isTrustDomain(trustDomain)) return trustDomain;
  throw new AuthorityProblem(
    `the authority's certificate has to have one URI, spiffe://<trust domain>, and has ${uris.join(", ") || "none"}`,
  );
};

export const createRoot = async (trustDomain: string, now: number): Promise<CredentialTexts> => {
  if (!isTrustDomain(trustDomain))
    throw new AuthorityProblem(`the trust domain ${JSON.stringify(trustDomain)} has to be a host name in lower case`);
  const key = generateKey();
  const certificate = await makeCertificate({
    kind: "root",
    uri: `${scheme}${trustDomain}`,
    subject: `CN=Holdfast root of ${trustDomain}`,
    key,
    by: undefined,
    notBefore: now - backdatedMs,
    notAfter: now + rootTtlMs,
  });
  return { chain: [certificate], key, roots: [certificate] };
};

/** Has a key of its own: what those before it issued goes on leading to the root by their certificates. */
export const createIssuing = async (root: CredentialTexts, ttlMs: number, now: number): Promise<CredentialTexts> => {
  const [pem = ""] = root.chain;
  const own = certificateOf(pem);
  if (!own.ca || !keyFits(own, root.key))
    throw new AuthorityProblem("the root is no authority, or its key is another one's");
  const trustDomain = await trustDomainOf(pem);
  const key = generateKey();
  const certificate = await makeCertificate({
    kind: "issuing",
    uri: `${scheme}${trustDomain}`,
    subject: `CN=Holdfast issuing authority of ${trustDomain}`,
    key,
    by: { certificate: pem, key: root.key },
    notBefore: now - backdatedMs,
    notAfter: Math.min(now + Math.min(ttlMs, issuingTtlMs), own.validToDate.getTime()),
  });
  return { chain: [certificate], key, roots: root.roots };
};

const certificateOf = (pem: string): X509Certificate => {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw new AuthorityProblem(`a certificate cannot be read: ${error instanceof Error ? error.message : error}`);
  }
};

const keyFits = (certificate: X509Certificate, key: string): boolean => {
  try {
    return certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
};

const problemsOf = (own: X509Certificate, key: string): readonly string[] =>
  [
    own.ca ? [] : ["is no authority, but the certificate of a caller or a server"],
    keyFits(own, key) ? [] : ["does not belong to the key beside it"],
    own.validToDate.getTime() - own.validFromDate.getTime() <= issuingTtlMs + backdatedMs
      ? []
      : ["is valid for more than 90 days, as a root is, whose key stays offline"],
  ].flat();

const timeProblem = ({ validFromDate, validToDate }: X509Certificate, now: number): string | undefined => {
  if (validFromDate.getTime() > now) return `is not valid before ${validFromDate.toISOString()}; is the clock right?`;
  return validToDate.getTime() > now
    ? undefined
    : `ended at ${validToDate.toISOString()}, and the clock of this host says ${new Date(now).toISOString()}`;
};

/** AU2: throws an AuthorityProblem. */
export const checkAuthority = async (
  texts: CredentialTexts,
  { now, trustDomain }: { readonly now: number; readonly trustDomain?: string | undefined },
): Promise<Authority> => {
  const [pem = "", ...between] = texts.chain;
  const own = certificateOf(pem);
  const problems = problemsOf(own, texts.key);
  if (problems.length > 0) throw new AuthorityProblem(`the authority's certificate ${problems.join(", and ")}`);
  const found = await trustDomainOf(pem);
  if (trustDomain !== undefined && found !== trustDomain)
    throw new AuthorityProblem(`the authority is one of trust domain ${found}, and this is ${trustDomain}`);
  const last = between.length === 0 ? own : certificateOf(between.at(-1) ?? "");
  const root = texts.roots.find((one) => isIssuedBy(last, certificateOf(one)));
  if (root === undefined) throw new AuthorityProblem("the authority's certificate leads to none of those in ca.crt");
  const anchor = certificateOf(root);
  for (const [what, one] of [
    ["the authority's certificate", own],
    ["the root in ca.crt", anchor],
  ] as const) {
    const untimely = timeProblem(one, now);
    if (untimely !== undefined) throw new AuthorityProblem(`${what} ${untimely}`, true);
  }
  return { ...texts, trustDomain: found, notAfter: own.validToDate.getTime(), pin: pinOf(anchor), root };
};

/** The authority in a directory or a bundle. */
export const readAuthority = async (at: string, wanted: Parameters<typeof checkAuthority>[1]): Promise<Authority> => {
  const texts = readCredentialTexts(at);
  if (isUnusable(texts)) throw new AuthorityProblem(texts.wrong);
  return await checkAuthority(texts, wanted);
};

/**
 * AU1. The certificate and those that lead to the root; of a controller the root too, so that a host which knows its pin alone can check
 * it.
 */
/** An ID may be what no host is called; then clients of other languages have nothing to verify. */
const hostName = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i;

export const issueLeaf = async (authority: Authority, wish: LeafWish): Promise<readonly string[]> => {
  const { identity, key, ttlMs, now, after } = wish;
  const { trustDomain, chain, root } = authority;
  const server = identity.role === "controller";
  const leaf = await makeCertificate({
    kind: server ? "server" : "client",
    uri: formatSpiffeId({ trustDomain, ...identity }),
    dns: server && hostName.test(identity.name) ? identity.name : undefined,
    subject: "",
    key,
    by: { certificate: chain[0] ?? "", key: authority.key },
    notBefore: Math.max(now - backdatedMs, after ?? 0),
    notAfter: Math.min(now + ttlMs, authority.notAfter),
  });
  return [leaf, ...chain, ...(server ? [root] : [])];
};
