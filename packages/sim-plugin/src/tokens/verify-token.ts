/** Verifies an identity token as a cloud's token service does: by the issuer's JWKS, and by nothing that its maker's code says. */
import { createPublicKey, verify } from "node:crypto";

export interface TokenClaims {
  readonly [name: string]: unknown;
}

export interface TokenCheck {
  readonly keys: readonly Jwk[];
  readonly issuer: string;
  readonly audience: string;
  /** Wall clock, milliseconds. */
  readonly now: number;
}

export interface Jwk {
  readonly kid?: string;
  readonly alg?: string;
  readonly kty?: string;
  readonly [member: string]: unknown;
}

/** Strictly base64url: one way to write each value, without padding. */
const bytesOf = (part: string): Buffer => {
  const bytes = Buffer.from(part, "base64url");
  if (part === "" || bytes.toString("base64url") !== part) throw new Error("a part is not base64url");
  return bytes;
};

const objectOf = (part: string): TokenClaims => {
  const value: unknown = JSON.parse(bytesOf(part).toString("utf8"));
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("a part is no JSON object");
  return value as TokenClaims;
};

const timeOf = (claims: TokenClaims, name: string): number => {
  const value = claims[name];
  if (typeof value !== "number" || !Number.isInteger(value)) throw new Error(`${name} is no time`);
  return value;
};

/** Throws what is wrong with it. */
export const verifyToken = (token: string, { keys, issuer, audience, now }: TokenCheck): TokenClaims => {
  const [head = "", body = "", signature = "", ...rest] = token.split(".");
  if (rest.length > 0) throw new Error("it is no JWT");
  const { alg, kid, typ } = objectOf(head);
  const jwk = keys.find((one) => one.kid === kid);
  if (jwk === undefined) throw new Error(`the JWKS has no key ${String(kid)}`);
  if (typ !== "JWT" || alg !== jwk.alg || (alg !== "ES256" && alg !== "RS256"))
    throw new Error(`algorithm ${String(alg)} is not that of its key`);
  const key = createPublicKey({ key: jwk as never, format: "jwk" });
  const options = { key, dsaEncoding: "ieee-p1363" } as const;
  if (!verify("sha256", Buffer.from(`${head}.${body}`), options, bytesOf(signature)))
    throw new Error("its signature does not fit");
  const claims = objectOf(body);
  if (claims["iss"] !== issuer) throw new Error(`it was issued by ${String(claims["iss"])}`);
  const audiences = Array.isArray(claims["aud"]) ? claims["aud"] : [claims["aud"]];
  if (!audiences.includes(audience)) throw new Error(`it is for ${audiences.join(", ")}, and not for ${audience}`);
  const seconds = now / 1000;
  if (timeOf(claims, "exp") <= seconds) throw new Error("it has expired");
  if (timeOf(claims, "nbf") > seconds) throw new Error("it is not valid yet");
  if (timeOf(claims, "exp") - timeOf(claims, "iat") > 3600) throw new Error("it lives for more than an hour");
  for (const name of ["sub", "jti", "namespace", "workload", "node", "volume"])
    if (typeof claims[name] !== "string" || claims[name] === "") throw new Error(`${name} is missing`);
  return claims;
};
