/** Verifies an identity token as a cloud's token service does: by the issuer's JWKS, and by nothing that its maker says of it. */
import { createPublicKey } from "node:crypto";
import { verifyJws } from "@holdfast/shared/trust/jws";

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

const timeOf = (claims: TokenClaims, name: string): number => {
  const value = claims[name];
  if (typeof value !== "number" || !Number.isInteger(value)) throw new Error(`${name} is no time`);
  return value;
};

/** Throws what is wrong with it. */
export const verifyToken = (token: string, { keys, issuer, audience, now }: TokenCheck): TokenClaims => {
  const keysFor = ({ kid }: TokenClaims) =>
    keys.flatMap((jwk) => (jwk.kid === kid ? [createPublicKey({ key: jwk as never, format: "jwk" })] : []));
  const found = verifyJws(token, keysFor);
  if ("wrong" in found) throw new Error(found.wrong);
  const { header, claims } = found;
  if (header["typ"] !== "JWT") throw new Error("it is no JWT");
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
