/**
 * The keys that identity tokens are signed with: one a line, "<id> <private key>", the key in PKCS#8 as base64 of its DER. The first signs,
 * and says by its kind how: ES256 for one on P-256, RS256 for one of RSA. The others are published, so that whoever verifies knows a new key
 * before it signs, and an old one while a token of it lives. A changed file counts at the next use.
 */
import { createPrivateKey, type KeyObject } from "node:crypto";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type PublicJwk, publicJwk, rsaBits } from "@holdfast/shared/trust/jws";
import { createPrivateFile, linesOf } from "../private-file.ts";

export interface TokenKey {
  readonly key: KeyObject;
  readonly jwk: PublicJwk;
}

export interface TokenKeys {
  /** Signs. */
  readonly first: TokenKey;
  readonly all: readonly TokenKey[];
}

export interface TokenKeyFile {
  /** Rejects with TOKENS_UNSIGNED when there are none to be had. */
  keys(): Promise<TokenKeys>;
}

const line = /^([A-Za-z0-9._-]{1,64})\s+([A-Za-z0-9+/]+={0,2})$/;
export const tokensUnsigned = (message: string): HoldfastError =>
  new HoldfastError({ kind: "precondition", reason: "TOKENS_UNSIGNED", message });

/** Undefined: it is no key, or none that tokens are signed with. */
const keyFrom = (base64: string): TokenKey | undefined => {
  let key: KeyObject;
  try {
    key = createPrivateKey({ key: Buffer.from(base64, "base64"), format: "der", type: "pkcs8" });
  } catch {
    return undefined;
  }
  const jwk = publicJwk(key);
  return jwk && { key, jwk };
};

const parse = (file: string, text: string): TokenKeys => {
  const all: TokenKey[] = [];
  const ids = new Set<string>();
  for (const { at, said } of linesOf(text)) {
    const [, id, base64] = line.exec(said) ?? [];
    // Never the line itself: it may hold a key.
    const key = base64 === undefined ? undefined : keyFrom(base64);
    if (id === undefined || key === undefined)
      throw tokensUnsigned(
        `line ${at} of key file ${file} is not "<id> <private key>", with a key on P-256, or of RSA with ${rsaBits.least} to ${rsaBits.most} bits, as base64 of its PKCS#8 DER; correct it`,
      );
    if (ids.has(id) || all.some(({ jwk }) => jwk.kid === key.jwk.kid))
      throw tokensUnsigned(`line ${at} of key file ${file} has an id or a key that is there already; take it out`);
    ids.add(id);
    all.push(key);
  }
  const [first] = all;
  if (first === undefined)
    throw tokensUnsigned(
      `key file ${file} holds no key; add one line "<id> <private key as base64 of its PKCS#8 DER>"`,
    );
  return { first, all };
};

export const createTokenKeyFile = (file: string | undefined): TokenKeyFile => {
  const { read } = createPrivateFile({
    ...{ file, parse, unavailable: tokensUnsigned },
    setting: "HOLDFAST_TOKEN_KEYS",
    holds: "no key to sign identity tokens with",
  });
  return { keys: read };
};
