/** A part of the composition root: the services of holdfast.v1. */
import type { ApiDeps } from "./api/api-deps.ts";
import { createClaimService } from "./api/claim/claim-service.ts";
import type { ControllerServices } from "./api/controller-services.ts";
import { createEventService } from "./api/event/event-service.ts";
import { createSecretService } from "./api/secret/secret-service.ts";
import { createVolumeService } from "./api/volume/volume-service.ts";
import type { SecretCommands } from "./commands/secret/secret-model.ts";
import { listExternalVolumesQuery } from "./commands/volume/list-external-volumes.ts";
import type { StatsQueries } from "./commands/volume/stats-model.ts";
import type { NodeServices } from "./node-wiring.ts";
import type { BackendListings, ControllerPlugins } from "./ports.ts";
import type { VolumeRecords } from "./records/volume/volume-records.ts";

export interface ApiWiring {
  readonly api: ApiDeps;
  readonly secrets: SecretCommands;
  readonly stats: StatsQueries;
  readonly records: VolumeRecords;
  readonly plugins: ControllerPlugins & { readonly listings: BackendListings };
  readonly renewals: Pick<NodeServices, "policyChanged">;
}

export const wireApi = ({
  api,
  secrets,
  stats,
  records,
  plugins,
  renewals,
}: ApiWiring): Pick<ControllerServices, "volumes" | "claims" | "events" | "secrets"> => {
  const listExternalVolumes = listExternalVolumesQuery({ records, plugins, listings: plugins.listings });
  return {
    volumes: createVolumeService({ ...api, stats, listExternalVolumes, policyChanged: renewals.policyChanged }),
    claims: createClaimService(api),
    events: createEventService(api),
    secrets: createSecretService({ ...api, secrets }),
  };
};
