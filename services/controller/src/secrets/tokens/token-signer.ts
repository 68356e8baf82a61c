/**
 * Signs the tokens that say which workload uses a volume, and publishes what they are verified by.
 *
 * Token-1 A key is published for as long as a token lives that it signed here, also when it was taken out of the file. Token-2 A token says
 * nothing of the volume's secrets, and is kept nowhere.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type PublicJwk, signJws } from "@holdfast/shared/trust/jws";
import type { TokenRequest } from "../../domain/plugin/publishing.ts";
import { type TokenKeyFile, tokensUnsigned } from "./token-keys.ts";

export interface TokenSubject {
  readonly namespace: string;
  readonly workload: string;
  readonly node: string;
  readonly volume: string;
}

export interface SignedToken {
  readonly audience: string;
  readonly token: string;
  /** Wall clock, milliseconds. */
  readonly expiresAt: number;
}

export interface TokenSigner {
  /** Rejects with TOKENS_UNSIGNED. */
  sign(subject: TokenSubject, requests: readonly TokenRequest[]): Promise<readonly SignedToken[]>;
  /** Why none can be signed now; undefined: they can. */
  trouble(): Promise<string | undefined>;
  /** Rejects with TOKENS_UNSIGNED when no key is known. */
  published(): Promise<readonly PublicJwk[]>;
}

export interface TokenSignerOptions {
  readonly keyFile: TokenKeyFile;
  /** Undefined: nobody has said who signs. */
  readonly issuer: string | undefined;
  readonly clock: Pick<Clock, "now">;
  readonly uuid: () => string;
}

/** Clocks of those who verify may be behind by so much. */
const skewSeconds = 30;

/** The workload's id comes last, as it alone may hold a colon. */
export const subjectOf = ({ namespace, workload }: Pick<TokenSubject, "namespace" | "workload">): string =>
  `system:holdfast:workload:${namespace}:${workload}`;

export const createTokenSigner = ({ keyFile, issuer, clock, uuid }: TokenSignerOptions): TokenSigner => {
  /** By kid: the end of the last token that the key signed, in seconds; 0: none. */
  const used = new Map<string, { readonly jwk: PublicJwk; readonly until: number }>();

  const nowSeconds = (): number => Math.floor(clock.now() / 1000);
  const issued = (): string => {
    if (issuer === undefined)
      throw tokensUnsigned("nobody is named who issues identity tokens; set HOLDFAST_TOKEN_ISSUER to an https URL");
    return issuer;
  };
  const ready = async () => ({ iss: issued(), keys: await keyFile.keys() });

  return {
    async sign(subject, requests) {
      if (requests.length === 0) return [];
      const { iss, keys } = await ready();
      const iat = nowSeconds();
      const { first } = keys;
      const header = { typ: "JWT", kid: first.jwk.kid };
      const until = iat + Math.max(...requests.map(({ ttlSeconds }) => ttlSeconds));
      used.set(first.jwk.kid, { jwk: first.jwk, until: Math.max(until, used.get(first.jwk.kid)?.until ?? 0) });
      return await Promise.all(
        requests.map(async ({ audience, ttlSeconds }) => {
          const exp = iat + ttlSeconds;
          const times = { iat, nbf: iat - skewSeconds, exp };
          const claims = { iss, sub: subjectOf(subject), aud: [audience], ...times, jti: uuid(), ...subject };
          return { audience, token: await signJws(first.key, header, claims), expiresAt: exp * 1000 };
        }),
      );
    },

    async trouble() {
      try {
        await ready();
        return undefined;
      } catch (error) {
        if (isHoldfastError(error) && error.reason === "TOKENS_UNSIGNED") return error.message;
        throw error;
      }
    },

    async published() {
      const now = nowSeconds();
      // Token-1: a token that has just ended may be on its way to whoever allows for a skew.
      for (const [kid, { until }] of used) if (until + skewSeconds < now) used.delete(kid);
      const old = [...used.values()].map(({ jwk }) => jwk);
      const inFile = await keyFile.keys().catch((error: unknown) => {
        if (old.length === 0) throw error;
        return { all: [] };
      });
      const current = inFile.all.map(({ jwk }) => jwk);
      return [...current, ...old.filter(({ kid }) => !current.some((jwk) => jwk.kid === kid))];
    },
  };
};
