/**
 * The one file that knows the library which makes certificates and requests (docs/adr/0024-certificates-are-made-here.md). Texts go in
 * and come out as PEM; Node itself reads and verifies certificates.
 *
 * MC1 A leaf has one URI name and no other, is no authority, and signs nothing.
 * MC2 Of a request only the key is taken, and only after its signature has proven that the sender has it.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, webcrypto } from "node:crypto";
import type { Extension } from "@peculiar/x509";

/** `issuing`: signs leaves. `server`: a leaf that also answers calls. `client`: a leaf that only makes them. */
export type CertificateKind = "root" | "issuing" | "server" | "client";

export interface SigningPair {
  readonly certificate: string;
  readonly key: string;
}

export interface CertificateWish {
  readonly kind: CertificateKind;
  readonly uri: string;
  /** What clients verify that know of no URI: gRPC in most languages. Ours do not look at it. */
  readonly dns?: string | undefined;
  /** Empty for a leaf: its name is the URI. */
  readonly subject: string;
  /** PEM of the key that is certified: a public key or a private one. */
  readonly key: string;
  /** Who signs; a root signs itself, by its own private key. */
  readonly by: SigningPair | undefined;
  readonly notBefore: number;
  readonly notAfter: number;
}

/** The host in every URI name that an authority below may certify. */
const hostOf = (uri: string): string => new URL(uri).host;

const curve = { name: "ECDSA", namedCurve: "P-256" } as const;
const signing = { name: "ECDSA", hash: "SHA-256" } as const;
const certificateTag = "CERTIFICATE";

/** 65 ms of loading that only those pay who make certificates. */
const library = async () => {
  await import("reflect-metadata");
  return await import("@peculiar/x509");
};

export const generateKey = (): string =>
  generateKeyPairSync("ec", {
    namedCurve: curve.namedCurve,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  }).privateKey;

const importPrivate = (pem: string): Promise<webcrypto.CryptoKey> => {
  const der = createPrivateKey(pem).export({ type: "pkcs8", format: "der" });
  return webcrypto.subtle.importKey("pkcs8", der, curve, true, ["sign"]);
};

const importPublic = (pem: string): Promise<webcrypto.CryptoKey> => {
  const der = createPublicKey(pem).export({ type: "spki", format: "der" });
  return webcrypto.subtle.importKey("spki", der, curve, true, ["verify"]);
};

const keysOf = async (pem: string): Promise<webcrypto.CryptoKeyPair> => ({
  privateKey: await importPrivate(pem),
  publicKey: await importPublic(pem),
});

/** Positive, and never so short that two could be guessed to be alike: 128 bits. */
const newSerial = (): string => {
  const bytes = randomBytes(16);
  // Without a leading zero, so that one number has one text.
  bytes[0] = (bytes[0] ?? 0) & 0x7f || 1;
  return bytes.toString("hex");
};

const tlv = (tag: number, content: Uint8Array): Uint8Array<ArrayBuffer> => {
  const { length } = content;
  return Uint8Array.from([tag, ...(length < 0x80 ? [length] : [0x82, length >> 8, length & 0xff]), ...content]);
};

/** RFC 5280 4.2.1.10: a permitted subtree that is the host of URIs. The library has no class for it. */
const permittedHost = (host: string): Uint8Array<ArrayBuffer> => {
  const uriName = tlv(0x86, Buffer.from(host, "ascii"));
  return tlv(0x30, tlv(0xa0, tlv(0x30, uriName)));
};

const nameConstraints = "2.5.29.30";

const extensionsOf = async (wish: CertificateWish, key: webcrypto.CryptoKey): Promise<Extension[]> => {
  const x509 = await library();
  const { kind, uri, dns, by, subject } = wish;
  const dnsNames = dns === undefined ? [] : [{ type: "dns", value: dns } as const];
  const signs = kind === "root" || kind === "issuing";
  const { keyCertSign, cRLSign, digitalSignature } = x509.KeyUsageFlags;
  const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
  return [
    signs
      ? new x509.BasicConstraintsExtension(true, kind === "root" ? 1 : 0, true)
      : new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(signs ? keyCertSign | cRLSign : digitalSignature, true),
    ...(signs ? [] : [new x509.ExtendedKeyUsageExtension(kind === "server" ? [serverAuth, clientAuth] : [clientAuth])]),
    ...(kind === "issuing" ? [new x509.Extension(nameConstraints, true, permittedHost(hostOf(uri)))] : []),
    // RFC 5280 4.2.1.6: critical where the subject is empty.
    new x509.SubjectAlternativeNameExtension([{ type: "url", value: uri }, ...dnsNames], subject === ""),
    await x509.SubjectKeyIdentifierExtension.create(key),
    ...(by === undefined
      ? []
      : [await x509.AuthorityKeyIdentifierExtension.create(new x509.X509Certificate(by.certificate).publicKey)]),
  ];
};

/** MC1 */
export const makeCertificate = async (wish: CertificateWish): Promise<string> => {
  const { X509CertificateGenerator, X509Certificate, PemConverter } = await library();
  const { by, subject } = wish;
  const publicKey = await importPublic(wish.key);
  const made = await X509CertificateGenerator.create({
    serialNumber: newSerial(),
    subject,
    issuer: by === undefined ? subject : new X509Certificate(by.certificate).subjectName,
    notBefore: new Date(wish.notBefore),
    notAfter: new Date(wish.notAfter),
    publicKey,
    signingKey: await importPrivate(by?.key ?? wish.key),
    signingAlgorithm: signing,
    extensions: await extensionsOf(wish, publicKey),
  });
  return `${PemConverter.encode(made.rawData, certificateTag)}\n`;
};

/** Without a subject: who asks is known by what comes with the request. */
export const makeRequest = async (key: string): Promise<string> => {
  const { Pkcs10CertificateRequestGenerator } = await library();
  const request = await Pkcs10CertificateRequestGenerator.create({
    signingAlgorithm: signing,
    keys: await keysOf(key),
  });
  return `${request.toString("pem")}\n`;
};

/** MC2: PEM of the public key; `wrong` says why it is not taken. */
export const readRequest = async (pem: string): Promise<{ readonly key: string } | { readonly wrong: string }> => {
  const { Pkcs10CertificateRequest } = await library();
  try {
    const request = new Pkcs10CertificateRequest(pem);
    const key = createPublicKey({ key: Buffer.from(request.publicKey.rawData), format: "der", type: "spki" });
    if (key.asymmetricKeyType !== "ec" || key.asymmetricKeyDetails?.namedCurve !== "prime256v1")
      return { wrong: `holds a key of type ${keyWords(key)}; it has to be EC P-256` };
    if (!(await request.verify())) return { wrong: "its signature is not by the key that it holds" };
    return { key: key.export({ type: "spki", format: "pem" }).toString() };
  } catch {
    return { wrong: "is no PEM of a PKCS#10 certificate request" };
  }
};

const keyWords = ({ asymmetricKeyType, asymmetricKeyDetails }: ReturnType<typeof createPublicKey>): string =>
  [asymmetricKeyType ?? "unknown", asymmetricKeyDetails?.namedCurve ?? asymmetricKeyDetails?.modulusLength ?? ""]
    .join(" ")
    .trim();

/** Every URI among the names of an authority; leaf.ts reads those of a leaf. */
export const urisIn = async (certificate: string): Promise<readonly string[]> => {
  const { X509Certificate, SubjectAlternativeNameExtension } = await library();
  return new X509Certificate(certificate)
    .getExtensions(SubjectAlternativeNameExtension)
    .flatMap(({ names }) => names.items.flatMap(({ type, value }) => (type === "url" ? [value] : [])));
};
