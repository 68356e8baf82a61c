/**
 * What a certificate says of its bearer, read from its DER. The string that Node makes of the alternative names is never read: names
 * were put into others through it (CVE-2021-44532), and Node itself does not compare names of this kind (CVE-2021-44531).
 *
 * Leaf-1 There is exactly one URI among the alternative names, and it is a name of ours. DNS names and addresses may stand beside it, as
 * some issuers add them, and give nothing; a name of any other kind refuses the certificate.
 * Leaf-2 The bearer is no authority: a key that signs certificates is nobody's identity.
 * Leaf-3 What is not read is not judged here: signatures and times are the business of TLS and of the reader's caller.
 */
import {
  contentOf,
  createDerCursor,
  type DerElement,
  DerFault,
  derTags,
  readElements,
  readOnly,
  readTime,
  readTrue,
} from "./der.ts";
import { parseSpiffeId, type SpiffeId } from "./spiffe-id.ts";

export interface Leaf {
  readonly id: SpiffeId;
  /** In hexadecimal digits, as Node and openssl show it. */
  readonly serial: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

export interface UnfitLeaf {
  readonly wrong: string;
}

export const isUnfit = (reading: Leaf | UnfitLeaf): reading is UnfitLeaf => "wrong" in reading;

const maxCertificateBytes = 16 * 1024;
const maxAlternativeNames = 64;
const maxSerialBytes = 20;

export function readLeaf(der: Uint8Array): Leaf | UnfitLeaf {
  if (der.length > maxCertificateBytes) return { wrong: `it has more than ${maxCertificateBytes} bytes` };
  try {
    return readCertificate(der);
  } catch (error) {
    if (error instanceof DerFault) return { wrong: error.message };
    throw error;
  }
}

const tags = { version: 0xa0, extensions: 0xa3 } as const;
const versionThree = "020102";

function readCertificate(der: Uint8Array): Leaf {
  const outer = createDerCursor(readOnly(der, derTags.sequence, "the certificate"));
  const body = createDerCursor(readElements(outer.take(derTags.sequence, "the body of the certificate")));
  outer.take(derTags.sequence, "the algorithm of the signature");
  outer.take(derTags.bitString, "the signature");
  outer.end("the certificate");

  if (hex(body.take(tags.version, "the version")) !== versionThree) throw new DerFault("it is not of version 3");
  const serial = readSerial(body.take(derTags.integer, "the serial number"));
  body.take(derTags.sequence, "the algorithm of the signature");
  body.take(derTags.sequence, "the issuer");
  const [notBefore, notAfter, ...others] = readElements(body.take(derTags.sequence, "the validity"));
  if (notBefore === undefined || notAfter === undefined || others.length > 0) throw new DerFault("it has no two times");
  body.take(derTags.sequence, "the subject");
  body.take(derTags.sequence, "the public key");
  const extensions = readExtensions(body.take(tags.extensions, "the list of extensions"));
  body.end("the body of the certificate");

  refuseAuthority(extensions); // Leaf-2
  const id = readNames(extensions.get(oids.alternativeNames));
  return { id, serial, notBefore: readTime(notBefore), notAfter: readTime(notAfter) };
}

function readSerial(content: Uint8Array): string {
  const [first = 0x80, second = 0] = content;
  const padded = first === 0 && content.length > 1;
  if (first >= 0x80 || (padded && second < 0x80)) throw new DerFault("the serial number is no positive number");
  const digits = padded ? content.subarray(1) : content;
  if (digits.length > maxSerialBytes) throw new DerFault(`the serial number has more than ${maxSerialBytes} bytes`);
  return hex(digits).toUpperCase();
}

/** In hexadecimal digits of their DER: id-ce 15, 17, 19. */
const oids = { keyUsage: "551d0f", alternativeNames: "551d11", basicConstraints: "551d13" } as const;

/** Values by the identifier of their extension; one that is there twice would mean one thing here and another elsewhere. */
function readExtensions(list: Uint8Array): ReadonlyMap<string, Uint8Array> {
  const found = new Map<string, Uint8Array>();
  for (const extension of readOnly(list, derTags.sequence, "the list of extensions")) {
    const parts = createDerCursor(readElements(contentOf(extension, derTags.sequence, "an extension")));
    const oid = hex(parts.take(derTags.objectId, "the identifier of an extension"));
    const critical = parts.takeIf(derTags.boolean);
    if (critical !== undefined) readTrue(critical, "the mark of a critical extension");
    const value = parts.take(derTags.octetString, "the value of an extension");
    parts.end("an extension");
    if (found.has(oid)) throw new DerFault("an extension is there twice");
    found.set(oid, value);
  }
  return found;
}

/** Of the first byte of a key usage. */
const signsCertificates = 0x04;

function refuseAuthority(extensions: ReadonlyMap<string, Uint8Array>): void {
  const constraints = extensions.get(oids.basicConstraints);
  const parts = constraints === undefined ? [] : readOnly(constraints, derTags.sequence, "the basic constraints");
  if (parts.length > 0) throw new DerFault("it is the certificate of an authority, and no identity");
  const usage = extensions.get(oids.keyUsage);
  if (usage === undefined) return;
  const [bits, ...rest] = readElements(usage);
  const [unused, first = 0] = contentOf(bits, derTags.bitString, "the key usage");
  if (rest.length > 0 || unused === undefined || unused > 7) throw new DerFault("the key usage is malformed");
  if ((first & signsCertificates) !== 0) throw new DerFault("its key signs certificates: it is no identity");
}

/** Kinds of an alternative name, as its tag says. */
const names = { dns: 0x82, uri: 0x86, address: 0x87 } as const;

/** Leaf-1 */
function readNames(value: Uint8Array | undefined): SpiffeId {
  if (value === undefined) throw new DerFault("it has no alternative names, and so no SPIFFE id");
  const all = readOnly(value, derTags.sequence, "the list of alternative names");
  if (all.length > maxAlternativeNames) throw new DerFault(`it has more than ${maxAlternativeNames} alternative names`);
  for (const { tag } of all)
    if (tag !== names.dns && tag !== names.uri && tag !== names.address)
      throw new DerFault("it has an alternative name that is no URI, DNS name or address");
  const uris = all.filter(({ tag }) => tag === names.uri);
  if (uris.length !== 1) throw new DerFault(`it has ${uris.length} URIs among its alternative names, and not one`);
  const id = parseSpiffeId(textOf(uris[0]));
  if (id === undefined)
    throw new DerFault(
      "its URI is not spiffe://<trust domain>/csi/ with controller, node, scheduler, operator and a name, or monitor",
    );
  return id;
}

/** One character a byte: what is not ASCII stays visible, and no pattern of ours has it. */
const textOf = (element: DerElement | undefined): string => Buffer.from(element?.content ?? []).toString("latin1");

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
