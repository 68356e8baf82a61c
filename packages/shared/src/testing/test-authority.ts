/** Certificates for tests, also such as no authority should make. */
import { webcrypto } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { credentialFiles } from "../trust/credential-files.ts";
import "reflect-metadata";
import * as x509 from "@peculiar/x509";

const signing = { name: "ECDSA", hash: "SHA-256" } as const;
const curve = { name: "ECDSA", namedCurve: "P-256" } as const;
const dayMs = 24 * 3_600_000;

export interface LeafWish {
  /** The path of its URI, such as `csi/node/n1`; the names below stand in its place when they are there. */
  readonly path?: string;
  readonly domain?: string;
  readonly names?: readonly x509.JsonGeneralName[];
  readonly notBefore?: number;
  readonly notAfter?: number;
  readonly serial?: string;
  readonly isAuthority?: boolean;
  /** Beside those that every leaf has, as these bytes. */
  readonly extensions?: readonly { readonly oid: string; readonly value: Buffer }[];
  /** Of extended key usage; both kinds if absent. */
  readonly usages?: readonly ("client" | "server")[];
}

export interface TestLeaf {
  readonly der: Buffer;
  /** PEM, with the intermediates. */
  readonly certificate: string;
  readonly key: string;
}

export interface TestAuthority {
  /** PEM, of the root. */
  readonly root: string;
  issue(wish: LeafWish): Promise<TestLeaf>;
  /** Signs leaves, and is signed by this one. */
  intermediate(): Promise<TestAuthority>;
}

const usageOids = { server: "1.3.6.1.5.5.7.3.1", client: "1.3.6.1.5.5.7.3.2" } as const;

const makeKeys = () => webcrypto.subtle.generateKey(curve, true, ["sign", "verify"]);

const keyPem = async (key: webcrypto.CryptoKey): Promise<string> =>
  x509.PemConverter.encode(await webcrypto.subtle.exportKey("pkcs8", key), "PRIVATE KEY");

const pemOf = (certificate: x509.X509Certificate): string => `${certificate.toString("pem")}\n`;

let serials = 0x1000;

const nextSerial = (): string => {
  serials += 1;
  return serials.toString(16).padStart(6, "0");
};

const forAuthorities = () => [
  new x509.BasicConstraintsExtension(true, undefined, true),
  new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
];

export async function createTestAuthority(domain = "test.example", name = domain): Promise<TestAuthority> {
  const keys = await makeKeys();
  const root = await x509.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: nextSerial(),
      name: `CN=${name}`,
      notBefore: new Date(Date.now() - dayMs),
      notAfter: new Date(Date.now() + 365 * dayMs),
      keys,
      signingAlgorithm: signing,
      extensions: forAuthorities(),
    },
    webcrypto as Crypto,
  );
  return authority({ domain, issuer: root, keys, root: pemOf(root), above: "" });
}

interface Signer {
  readonly domain: string;
  readonly issuer: x509.X509Certificate;
  readonly keys: webcrypto.CryptoKeyPair;
  readonly root: string;
  /** PEM of the certificates between the leaf and the root. */
  readonly above: string;
}

function authority({ domain, issuer, keys, root, above }: Signer): TestAuthority {
  const sign = async (
    wish: LeafWish,
    publicKey: webcrypto.CryptoKey,
    extensions: readonly x509.Extension[],
    subject: string,
  ) =>
    await x509.X509CertificateGenerator.create(
      {
        serialNumber: wish.serial ?? nextSerial(),
        subject,
        issuer: issuer.subject,
        notBefore: new Date(wish.notBefore ?? Date.now() - dayMs),
        notAfter: new Date(wish.notAfter ?? Date.now() + dayMs),
        publicKey,
        signingKey: keys.privateKey,
        signingAlgorithm: signing,
        extensions: [...extensions],
      },
      webcrypto as Crypto,
    );
  return {
    root,
    async issue(wish) {
      const own = await makeKeys();
      const uri = `spiffe://${wish.domain ?? domain}/${wish.path ?? "csi/node/n1"}`;
      const names = wish.names ?? [{ type: "url", value: uri }];
      const certificate = await sign(
        wish,
        own.publicKey,
        [
          ...(wish.isAuthority === true ? forAuthorities() : [new x509.BasicConstraintsExtension(false)]),
          ...(wish.isAuthority === true
            ? []
            : [new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true)]),
          new x509.ExtendedKeyUsageExtension((wish.usages ?? ["client", "server"]).map((usage) => usageOids[usage])),
          ...(names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension([...names], true)]),
          ...(wish.extensions ?? []).map(({ oid, value }) => new x509.Extension(oid, false, value)),
        ],
        "",
      );
      return {
        der: Buffer.from(certificate.rawData),
        certificate: pemOf(certificate) + above,
        key: await keyPem(own.privateKey),
      };
    },
    async intermediate() {
      const own = await makeKeys();
      const subject = `CN=${domain} intermediate`;
      const certificate = await sign({ notAfter: Date.now() + 90 * dayMs }, own.publicKey, forAuthorities(), subject);
      return authority({ domain, issuer: certificate, keys: own, root, above: pemOf(certificate) + above });
    },
  };
}

/** As cert-manager leaves them. */
export function writeCredentials(
  directory: string,
  leaf: Pick<TestLeaf, "certificate" | "key">,
  roots: readonly string[],
): void {
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, credentialFiles.key), leaf.key);
  writeFileSync(path.join(directory, credentialFiles.certificate), leaf.certificate);
  writeFileSync(path.join(directory, credentialFiles.roots), roots.join(""));
}
