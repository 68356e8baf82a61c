/**
 * What whoever is shown an identity token verifies it by: who issues, and the public keys. On a listener of its own, so that it can be shown
 * to others without the metrics: it tells nothing that a token does not tell.
 */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { StrangerCalls } from "@holdfast/shared/grpc/stranger-calls";
import { createGetServer, type GetAnswer, type GetServer } from "@holdfast/shared/http/get-server";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { PublicJwk } from "@holdfast/shared/trust/jws";
import type { TokenSigner } from "./token-signer.ts";

export interface DiscoveryServerOptions {
  readonly signer: Pick<TokenSigner, "published">;
  /** An https URL without a slash at its end. */
  readonly issuer: string;
  readonly insecure: boolean;
  readonly strangers?: StrangerCalls | undefined;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "gauge">;
}

export const discoveryPath = "/.well-known/openid-configuration";
export const jwksPath = "/openid/v1/jwks";

/** A new key has to be published for so long before it signs. */
const cache = "public, max-age=300";

const json = (type: string, value: object): GetAnswer => ({ status: 200, body: JSON.stringify(value), type, cache });

export const createDiscoveryServer = ({
  signer,
  issuer,
  insecure,
  strangers,
  log,
  metrics,
}: DiscoveryServerOptions): GetServer => {
  /** Without a key nothing is said, so that nobody takes an empty set for the truth and keeps it. */
  const withKeys = (answer: (keys: readonly PublicJwk[]) => GetAnswer) => async (): Promise<GetAnswer> => {
    try {
      return answer(await signer.published());
    } catch (error) {
      if (!isHoldfastError(error) || error.reason !== "TOKENS_UNSIGNED") throw error;
      return { status: 503, body: "there is no key now; the log has the details\n" };
    }
  };
  const discovery = withKeys((keys) =>
    json("application/json", {
      issuer,
      jwks_uri: `${issuer}${jwksPath}`,
      response_types_supported: ["id_token"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: [...new Set(keys.map(({ alg }) => alg))].sort(),
    }),
  );
  const jwks = withKeys((keys) => json("application/jwk-set+json", { keys }));
  const { pathname } = new URL(issuer);
  // A proxy in front of it may hand on the path of the issuer, or take it away.
  const prefixes = pathname === "/" ? [""] : ["", pathname];
  return createGetServer({
    log,
    name: "the discovery server",
    hint: `there are ${discoveryPath} and ${jwksPath}`,
    strangers,
    // The keys are for everybody to read. A verifier believes them: they have to come to it as they were sent.
    plain: {
      insecure,
      risk: "anyone on the way can put other keys in the place of those that tokens are verified by",
      metrics,
    },
    answers: Object.fromEntries(
      prefixes.flatMap((prefix) => [
        [`${prefix}${discoveryPath}`, discovery],
        [`${prefix}${jwksPath}`, jwks],
      ]),
    ),
  });
};
