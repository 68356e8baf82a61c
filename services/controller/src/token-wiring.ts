/** A part of the composition root: what NodePublishVolume is told of workloads, who signs it, and what goes to agents with a permit. */
import type { Clock } from "@holdfast/shared/async/clock";
import { ConfigError } from "@holdfast/shared/config/config-error";
import type { StrangerCalls } from "@holdfast/shared/grpc/stranger-calls";
import type { Lifecycle } from "@holdfast/shared/lifecycle";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { ControllerConfig } from "./config.ts";
import { publishingOf } from "./domain/plugin/publishing.ts";
import { createPermitWords, type PublishingFacts } from "./nodes/permit-words.ts";
import type { Ids, PluginProfiles } from "./ports.ts";
import type { Secrets } from "./secrets/secrets.ts";
import { createDiscoveryServer } from "./secrets/tokens/discovery-server.ts";
import { createTokenKeyFile } from "./secrets/tokens/token-keys.ts";
import { createTokenSigner, type TokenSigner } from "./secrets/tokens/token-signer.ts";

export interface TokenWiring {
  readonly config: Pick<ControllerConfig, "tokenKeys" | "tokenIssuer">;
  readonly profiles: Pick<PluginProfiles, "of">;
  readonly secrets: Pick<Secrets, "resolve">;
  readonly clock: Clock;
  readonly ids: Ids;
}

export interface TokenParts {
  readonly secrets: Pick<Secrets, "resolve">;
  readonly signer: TokenSigner;
  readonly publishing: PublishingFacts;
  readonly permitWords: ReturnType<typeof createPermitWords>;
}

export const createTokenParts = ({ config, profiles, secrets, clock, ids }: TokenWiring): TokenParts => {
  const keyFile = createTokenKeyFile(config.tokenKeys);
  const signer = createTokenSigner({ keyFile, issuer: config.tokenIssuer, clock, uuid: ids.uuid });
  const publishing: PublishingFacts = {
    of: ({ plugin, policy }) => publishingOf(profiles.of(plugin), policy),
    trouble: signer.trouble,
  };
  return { secrets, signer, publishing, permitWords: createPermitWords({ secrets, publishing }) };
};

export interface DiscoveryParts {
  readonly signer: TokenSigner;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly lifecycle: Pick<Lifecycle, "start">;
  readonly strangers: StrangerCalls | undefined;
}

/** Where the public keys are served, if somewhere. */
export const serveDiscovery = async (
  config: Pick<ControllerConfig, "discoveryListen" | "tokenIssuer" | "insecure">,
  { signer, log, metrics, lifecycle, strangers }: DiscoveryParts,
): Promise<void> => {
  const { discoveryListen: address, tokenIssuer: issuer, insecure } = config;
  if (address === undefined) return;
  if (issuer === undefined)
    throw new ConfigError([
      { field: "HOLDFAST_OIDC_LISTEN", description: "nobody is named who issues: set HOLDFAST_TOKEN_ISSUER" },
    ]);
  await lifecycle.start("discovery", async () => {
    const server = createDiscoveryServer({ signer, issuer, insecure, strangers, log, metrics });
    log.info("discovery listening", { address: await server.listen(address) });
    return () => server.stop();
  });
};
