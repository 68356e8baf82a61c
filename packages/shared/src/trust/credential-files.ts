/**
 * Where a service finds its certificate: a directory with `tls.crt` (the leaf, then intermediates), `tls.key` and `ca.crt` (the trust
 * roots), as cert-manager writes it, or one file that has all of it. In one file the first certificate is the leaf, and those that are
 * signed by themselves are the roots.
 */
import { X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { readPem } from "./pem.ts";

export const credentialFiles = { certificate: "tls.crt", key: "tls.key", roots: "ca.crt" } as const;

export interface CredentialTexts {
  /** PEM, the leaf first. */
  readonly chain: readonly string[];
  readonly key: string;
  readonly roots: readonly string[];
}

export interface Unusable {
  readonly wrong: string;
}

export const isUnusable = (value: object): value is Unusable => "wrong" in value;

export interface FoundFiles {
  /** What each holds, word by word: texts are compared before they are judged. */
  readonly contents: readonly string[] | Unusable;
  /** Changes whenever one of them is written, also with the same words. */
  readonly stamp: string;
}

export function readCredentialFiles(at: string): FoundFiles {
  try {
    const isDirectory = statSync(at).isDirectory();
    const files = isDirectory ? Object.values(credentialFiles).map((name) => path.join(at, name)) : [at];
    const stamps = files.map((file) => statSync(file, { bigint: true })).map(({ ino, mtimeNs }) => `${ino} ${mtimeNs}`);
    return { contents: files.map((file) => readFileSync(file, "utf8")), stamp: stamps.join() };
  } catch (error) {
    const wrong = error instanceof Error ? error.message : String(error);
    return { contents: { wrong }, stamp: wrong };
  }
}

export const isDirectory = (at: string): boolean => statSync(at, { throwIfNoEntry: false })?.isDirectory() === true;

/** The directory in which names change when the files do. */
export function directoryOf(at: string): string {
  return isDirectory(at) ? at : path.dirname(at);
}

export function takeApart(contents: readonly string[]): CredentialTexts | Unusable {
  const [certificate = "", key = "", roots = ""] = contents;
  return contents.length === 1 ? ofBundle(certificate) : ofFiles(certificate, key, roots);
}

/** What is there now, for a reader that looks once. */
export function readCredentialTexts(at: string): CredentialTexts | Unusable {
  const { contents } = readCredentialFiles(at);
  return isUnusable(contents) ? contents : takeApart(contents);
}

const cut = (name: string): Unusable => ({ wrong: `${name} is cut off: a block has no end` });

function ofFiles(certificate: string, key: string, roots: string): CredentialTexts | Unusable {
  const chain = certificatesOf(certificate);
  const anchors = certificatesOf(roots);
  const keys = keysOf(key);
  if (chain === undefined) return cut(credentialFiles.certificate);
  if (keys === undefined) return cut(credentialFiles.key);
  if (anchors === undefined) return cut(credentialFiles.roots);
  const [only, second] = keys;
  if (chain.length === 0) return { wrong: `${credentialFiles.certificate} holds no certificate` };
  if (only === undefined || second !== undefined)
    return { wrong: `${credentialFiles.key} holds ${keys.length} private keys, and not one` };
  if (anchors.length === 0) return { wrong: `${credentialFiles.roots} holds no certificate` };
  return { chain, key: only, roots: anchors };
}

function ofBundle(text: string): CredentialTexts | Unusable {
  const all = certificatesOf(text);
  const [key, second] = keysOf(text) ?? [];
  if (all === undefined) return cut("the file");
  if (key === undefined || second !== undefined) return { wrong: "the file does not hold exactly one private key" };
  const [leaf, ...others] = all;
  if (leaf === undefined) return { wrong: "the file holds no certificate" };
  const roots = others.filter(isSelfSigned);
  if (roots.length === 0)
    return { wrong: "the file holds no trust root: none of its certificates is signed by itself" };
  return { chain: [leaf, ...others.filter((one) => !roots.includes(one))], key, roots };
}

const certificatesOf = (text: string): readonly string[] | undefined =>
  readPem(text)
    ?.filter(({ label }) => label === "CERTIFICATE")
    .map((block) => block.text);

const keysOf = (text: string): readonly string[] | undefined =>
  readPem(text)
    ?.filter(({ label }) => label.endsWith("PRIVATE KEY"))
    .map((block) => block.text);

export function isSelfSigned(pem: string): boolean {
  try {
    const certificate = new X509Certificate(pem);
    return certificate.checkIssued(certificate) && certificate.verify(certificate.publicKey);
  } catch {
    return false;
  }
}
