/** The look of a node plugin at the identity token of a NodePublishVolume, by the issuer's JWKS as it is served at that time. */
import type { NodePublishVolumeRequest } from "@holdfast/shared/gen/csi/v1/csi";
import { type TokenFacts, tokensKey } from "../backend/call.ts";
import { type Jwk, verifyToken } from "../tokens/verify-token.ts";

export interface TokenMode {
  /** URL of the JWKS. */
  readonly jwks: string;
  readonly issuer: string;
  readonly audience: string;
  /** Looks in volume_context, as drivers did before KEP-5538. */
  readonly old?: boolean;
}

const deadlineMs = 5_000;

export const createTokenCheck =
  ({ jwks, issuer, audience, old = false }: TokenMode) =>
  async ({ secrets, volumeContext }: NodePublishVolumeRequest): Promise<TokenFacts> => {
    try {
      const text = (old ? volumeContext : secrets)[tokensKey];
      if (text === undefined) throw new Error("there is none");
      const tokens = JSON.parse(text) as { readonly [audience: string]: Partial<Record<string, string>> };
      const { token, expirationTimestamp } = tokens[audience] ?? {};
      if (token === undefined) throw new Error(`there is none for ${audience}`);
      const response = await fetch(jwks, { signal: AbortSignal.timeout(deadlineMs) });
      const { keys } = (await response.json()) as { readonly keys: readonly Jwk[] };
      const claims = verifyToken(token, { keys, issuer, audience, now: Date.now() });
      if (Date.parse(expirationTimestamp ?? "") !== Number(claims["exp"]) * 1000)
        throw new Error(`its expirationTimestamp is ${expirationTimestamp}, and it ends at ${String(claims["exp"])}`);
      return { claims, old };
    } catch (error) {
      return { wrong: `its token: ${error instanceof Error ? error.message : String(error)}`, old };
    }
  };
