import type { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import type { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { EventServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/event";
import type { GrantServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/grant";
import type { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import type { PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import type { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import type { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import type { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import type { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import type { TrustServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/trust";
import type { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient, type GrpcClient } from "@holdfast/shared/grpc/client";
import { parseIdentity } from "@holdfast/shared/grpc/identity";
import type { Logger } from "@holdfast/shared/log/logger";
import { createSilentLogger } from "@holdfast/shared/log/silent-logger";
import { CliFailure } from "./cli-failure.ts";
import { exitCodes } from "./exit-code.ts";
import { lateClient } from "./late-client.ts";
import type { Settings } from "./settings.ts";

export interface Clients {
  readonly volumes: GrpcClient<typeof VolumeServiceDefinition>;
  readonly claims: GrpcClient<typeof ClaimServiceDefinition>;
  readonly snapshots: GrpcClient<typeof SnapshotServiceDefinition>;
  readonly nodes: GrpcClient<typeof NodeServiceDefinition>;
  readonly plugins: GrpcClient<typeof PluginServiceDefinition>;
  /** Of an agent, at its local address. */
  readonly pluginHost: GrpcClient<typeof PluginHostServiceDefinition>;
  readonly placement: GrpcClient<typeof PlacementServiceDefinition>;
  readonly repair: GrpcClient<typeof RepairServiceDefinition>;
  readonly secrets: GrpcClient<typeof SecretServiceDefinition>;
  readonly quotas: GrpcClient<typeof QuotaServiceDefinition>;
  readonly grants: GrpcClient<typeof GrantServiceDefinition>;
  readonly events: GrpcClient<typeof EventServiceDefinition>;
  readonly trust: GrpcClient<typeof TrustServiceDefinition>;
  /** Of a service that is known by its descriptor alone. */
  of<Definition extends CallableDefinition>(definition: Definition): GrpcClient<Definition>;
  close(): void;
}

type CallableDefinition = Parameters<typeof createGrpcClient>[0];

/** A call that asks and answers is over in this time, or the controller is not there. */
const callDeadlineMs = 30_000;

/** Loaded where there are certificates alone. */
const trustOf = async (path: string, log: Logger) => {
  const { createCertificateKeeper } = await import("@holdfast/shared/trust/certificate-keeper");
  const { certifiedRoles } = await import("@holdfast/shared/trust/spiffe-id");
  const { createChannelCredentials } = await import("@holdfast/shared/grpc/tls-credentials");
  const keeper = createCertificateKeeper({ path, setting: "--certs", wanted: { roles: certifiedRoles }, log });
  return { keeper, credentials: createChannelCredentials(keeper) };
};

export const connect = async (settings: Settings): Promise<Clients> => {
  const identity = settings.identity === undefined ? undefined : parseIdentity(settings.identity);
  if (identity === undefined && settings.identity !== undefined)
    throw new CliFailure({
      exitCode: exitCodes.usage,
      reason: "BAD_SETTING",
      message: `the identity ${JSON.stringify(settings.identity)} has to be role/name, such as operator/ada`,
    });
  // Failures are told by the commands, in words.
  const log = createSilentLogger();
  const trust = settings.certs === undefined ? undefined : await trustOf(settings.certs, log);
  const channel = createGrpcChannel(settings.address, { credentials: trust?.credentials });
  const options = {
    log,
    ...(identity === undefined ? {} : { identity }),
    defaultDeadlineMs: Math.min(callDeadlineMs, settings.timeoutMs),
    // A controller that is being replaced: another one, or the next life, has the same answer.
    readsAgain: true,
  };
  const client = <Definition extends CallableDefinition>(load: () => Promise<Definition>) =>
    lateClient(async () => createGrpcClient(await load(), channel, options));
  return {
    volumes: client(async () => (await import("@holdfast/shared/gen/holdfast/v1/volume")).VolumeServiceDefinition),
    claims: client(async () => (await import("@holdfast/shared/gen/holdfast/v1/claim")).ClaimServiceDefinition),
    snapshots: client(
      async () => (await import("@holdfast/shared/gen/holdfast/v1/snapshot")).SnapshotServiceDefinition,
    ),
    nodes: client(async () => (await import("@holdfast/shared/gen/holdfast/v1/node")).NodeServiceDefinition),
    plugins: client(async () => (await import("@holdfast/shared/gen/holdfast/v1/plugin")).PluginServiceDefinition),
    pluginHost: client(
      async () => (await import("@holdfast/shared/gen/holdfast/agent/v1/plugin_host")).PluginHostServiceDefinition,
    ),
    placement: client(
      async () => (await import("@holdfast/shared/gen/holdfast/v1/placement")).PlacementServiceDefinition,
    ),
    repair: client(async () => (await import("@holdfast/shared/gen/holdfast/v1/repair")).RepairServiceDefinition),
    secrets: client(async () => (await import("@holdfast/shared/gen/holdfast/v1/secret")).SecretServiceDefinition),
    quotas: client(async () => (await import("@holdfast/shared/gen/holdfast/v1/quota")).QuotaServiceDefinition),
    grants: client(async () => (await import("@holdfast/shared/gen/holdfast/v1/grant")).GrantServiceDefinition),
    events: client(async () => (await import("@holdfast/shared/gen/holdfast/v1/event")).EventServiceDefinition),
    trust: client(async () => (await import("@holdfast/shared/gen/holdfast/v1/trust")).TrustServiceDefinition),
    of: (definition) => createGrpcClient(definition, channel, options),
    close() {
      channel.close();
      trust?.keeper.stop();
    },
  };
};
