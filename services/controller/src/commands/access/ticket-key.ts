/** The public keys that tickets of workloads are verified by: as operators hand them in, and as they are kept. */
import { createPublicKey, type KeyObject } from "node:crypto";
import { publicJwk, rsaBits } from "@holdfast/shared/trust/jws";
import { readPem } from "@holdfast/shared/trust/pem";
import type { Violation } from "../../domain/limits.ts";

const mostTicketKeys = 8;

const mostChars = 4096;
const privateMembers = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

const shapes = "has to be one PEM block PUBLIC KEY, or a JWK";
const kinds = `has to be a key on P-256, or of RSA with ${rsaBits.least} to ${rsaBits.most} bits`;
const shown =
  "holds a private key, which the scheduler alone should have; it was not stored. Make another pair, since this one was shown, and hand in its public half";

/** The thumbprint of a key as it is kept. */
export const ticketKeyId = (jwk: string): string =>
  String((JSON.parse(jwk) as Readonly<Record<string, unknown>>)["kid"]);

/** Its text as a JWK, the same for the same key, or what is wrong with it. The words hold nothing of it. */
const readTicketKey = (text: string): { readonly jwk: string } | { readonly wrong: string } => {
  if (text.length > mostChars) return { wrong: `must not be longer than ${mostChars} characters` };
  const isJson = text.trimStart().startsWith("{");
  if (!isJson && text.includes("PRIVATE KEY")) return { wrong: shown };
  try {
    return isJson ? fromJwk(JSON.parse(text) as Readonly<Record<string, unknown>>) : fromPem(text);
  } catch {
    return { wrong: shapes };
  }
};

const kept = (key: KeyObject): { readonly jwk: string } | { readonly wrong: string } => {
  const jwk = publicJwk(key);
  return jwk === undefined ? { wrong: kinds } : { jwk: JSON.stringify(jwk) };
};

const fromPem = (text: string) => {
  const [block, ...more] = readPem(text) ?? [];
  return block?.label === "PUBLIC KEY" && more.length === 0 ? kept(createPublicKey(block.text)) : { wrong: shapes };
};

const fromJwk = (jwk: Readonly<Record<string, unknown>>) => {
  if (privateMembers.some((member) => jwk[member] !== undefined)) return { wrong: shown };
  const found = kept(createPublicKey({ key: jwk as never, format: "jwk" }));
  if ("wrong" in found) return found;
  const { alg, use } = JSON.parse(found.jwk) as Readonly<Record<string, unknown>>;
  const same = (jwk["alg"] ?? alg) === alg && (jwk["use"] ?? use) === use;
  return same ? found : { wrong: `says another alg or use than ${alg} and ${use}, which is all that it is used for` };
};

export const readTicketKeys = (
  texts: readonly string[],
): { readonly keys: readonly string[]; readonly violations: readonly Violation[] } => {
  const read = texts.slice(0, mostTicketKeys).map(readTicketKey);
  const many = { field: "ticket_keys", description: `must not hold more than ${mostTicketKeys}` };
  return {
    keys: read.flatMap((one) => ("jwk" in one ? [one.jwk] : [])),
    violations: [
      ...(texts.length > mostTicketKeys ? [many] : []),
      ...read.flatMap((one, i) => ("wrong" in one ? [{ field: `ticket_keys[${i}]`, description: one.wrong }] : [])),
    ],
  };
};
