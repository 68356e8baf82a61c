/**
 * JSON Web Signatures in their compact form (RFC 7515, 7518): ES256 and RS256, and nothing else. What a signature is good for is for those to
 * say who know what is signed.
 *
 * J1 The algorithm is that of the key; a header that names another one, or none, is refused. J2 Each value has one way to be written. J3 What
 * a header says has to be understood (`crit`) is not.
 */
import { createPublicKey, hash, type KeyObject, sign, verify } from "node:crypto";
import { promisify } from "node:util";

export type JwsAlgorithm = "ES256" | "RS256";

/** As RFC 7517 writes a public key: what whoever verifies has to know, and nothing else. */
export interface PublicJwk {
  readonly kty: string;
  readonly kid: string;
  readonly alg: JwsAlgorithm;
  readonly use: "sig";
  readonly [member: string]: string;
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** What was signed, or what is wrong with it, in words that hold nothing of it. */
export type JwsFound = { readonly header: JsonObject; readonly claims: JsonObject } | { readonly wrong: string };

/** Longer keys of RSA make tokens of which few fit into a call of CSI. */
export const rsaBits = { least: 2048, most: 3072 };

/** The members that RFC 7638 makes the thumbprint of, in its order. */
const thumbprinted = { ES256: ["crv", "kty", "x", "y"], RS256: ["e", "kty", "n"] } as const;

const signAsync = promisify(sign);

/** Undefined: nothing is signed here with such a key. */
export function jwsAlgorithm({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject) {
  if (type === "ec" && details?.namedCurve === "prime256v1") return "ES256" satisfies JwsAlgorithm;
  const bits = type === "rsa" ? (details?.modulusLength ?? 0) : 0;
  return bits >= rsaBits.least && bits <= rsaBits.most ? ("RS256" satisfies JwsAlgorithm) : undefined;
}

/** Of either half of a pair. */
export function publicJwk(key: KeyObject): PublicJwk | undefined {
  const alg = jwsAlgorithm(key);
  if (alg === undefined) return undefined;
  const open = key.type === "private" ? createPublicKey(key) : key;
  const exported: JsonObject = { ...open.export({ format: "jwk" }) };
  const members = Object.fromEntries(thumbprinted[alg].map((name) => [name, String(exported[name])]));
  const kid = hash("sha256", JSON.stringify(members), "base64url");
  return { ...members, kty: String(exported["kty"]), kid, alg, use: "sig" };
}

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** The header gets the algorithm of the key. */
export async function signJws(key: KeyObject, header: object, claims: object): Promise<string> {
  const text = `${encoded({ alg: jwsAlgorithm(key), ...header })}.${encoded(claims)}`;
  // RFC 7518: the two numbers of an ES256 signature as they are, and not in DER.
  const signature = await signAsync("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" });
  return `${text}.${signature.toString("base64url")}`;
}

/** `keysFor` sees a header that nobody has vouched for yet. */
export function verifyJws(token: string, keysFor: (header: JsonObject) => readonly KeyObject[]): JwsFound {
  const [head = "", body = "", signature = "", ...rest] = token.split(".");
  const header = objectOf(head);
  const claims = objectOf(body);
  const signed = bytesOf(signature);
  if (header === undefined || claims === undefined || signed === undefined || rest.length > 0)
    return { wrong: "it is no JWS in compact form, with parts in base64url" };
  if (header["crit"] !== undefined) return { wrong: "its header has crit, of which nothing is understood here" }; // J3
  const { alg } = header;
  const keys = keysFor(header).filter((key) => jwsAlgorithm(key) === alg); // J1
  if (keys.length === 0)
    return { wrong: "no key that it may be signed with is of the algorithm that its header names" };
  const text = Buffer.from(`${head}.${body}`);
  const fits = (key: KeyObject): boolean => verify("sha256", text, { key, dsaEncoding: "ieee-p1363" }, signed);
  return keys.some(fits) ? { header, claims } : { wrong: "its signature is of no key that it may be signed with" };
}

/** J2: strictly base64url, without padding. */
function bytesOf(part: string): Buffer | undefined {
  const bytes = Buffer.from(part, "base64url");
  return part !== "" && bytes.toString("base64url") === part ? bytes : undefined;
}

function objectOf(part: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(bytesOf(part)?.toString("utf8") ?? "");
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}
