import { hash } from "node:crypto";
import { type Leaf, readLeaf, type UnfitLeaf } from "./leaf.ts";

export interface ReadCertificate {
  readonly leaf: Leaf | UnfitLeaf;
  /** SHA-256 of the DER, in hexadecimal digits. */
  readonly fingerprint: string;
}

export type LeafReader = (der: Uint8Array) => ReadCertificate;

/** Remembers what it read by the SHA-256 of the DER: a connection makes thousands of calls with one certificate. The oldest one goes first. */
export function createLeafReader(most = 20_000): LeafReader {
  const known = new Map<string, ReadCertificate>();
  return (der) => {
    const fingerprint = hash("sha256", der, "hex");
    const before = known.get(fingerprint);
    if (before !== undefined) return before;
    const read = { leaf: readLeaf(der), fingerprint };
    const [oldest] = known.size >= most ? known.keys() : [];
    if (oldest !== undefined) known.delete(oldest);
    known.set(fingerprint, read);
    return read;
  };
}
