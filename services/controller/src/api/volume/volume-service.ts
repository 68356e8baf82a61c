import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { StatsQueries } from "../../commands/volume/stats-model.ts";
import { refuse, validateGetCapacity } from "../../commands/volume/validate-volume.ts";
import { listWithin } from "../access/within-scope.ts";
import type { ApiDeps } from "../api-deps.ts";
import { createChecks, refuseAll } from "../check-request.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";
import { unimplemented } from "../unimplemented.ts";
import { explanationMessage } from "./convert-explanation.ts";
import { volumeStatsMessage } from "./convert-stats.ts";
import { volumeMessage } from "./convert-volume.ts";
import { capacityQuery, volumeFilterFrom } from "./convert-volume-request.ts";
import { createExternalVolumes, type ExternalVolumesDeps } from "./external-volumes.ts";
import { createVolumeChanges } from "./volume-changes.ts";
import { createVolumeLifecycle, type PolicyDeps } from "./volume-lifecycle.ts";
import { watchVolumes } from "./volume-watch.ts";

export interface StatsDeps {
  readonly stats: StatsQueries;
}

type VolumeService = Implementation<typeof VolumeServiceDefinition>;

export const createVolumeService = (deps: ApiDeps & ExternalVolumesDeps & StatsDeps & PolicyDeps): VolumeService =>
  unimplemented(VolumeServiceDefinition, {
    ...createVolumeLifecycle(deps),
    ...createVolumeChanges(deps),
    ...createVolumeReads(deps),
    ...createExternalVolumes(deps),
  });

const createVolumeReads = (
  deps: ApiDeps & StatsDeps,
): Pick<
  VolumeService,
  "getVolume" | "listVolumes" | "getCapacity" | "watchVolumes" | "explainVolume" | "getVolumeStats"
> => {
  const { commands } = deps;
  return {
    getVolume: async ({ namespace, id }) => ({ volume: volumeMessage(await commands.getVolume({ namespace, id })) }),

    async listVolumes(request, { identity, signal }) {
      const checks = createChecks();
      const filter = volumeFilterFrom(request.filter, checks);
      const scope = deps.scopeOf(identity);
      const question = questionOf("ListVolumes", filter, scope);
      const page = { ...pageFrom(request, question, checks), signal };
      refuse(checks.violations);
      const { items, next } = await listWithin(scope, filter, page, commands.listVolumes);
      return { volumes: items.map(volumeMessage), nextPageToken: nextPageToken(next, question) };
    },

    async getCapacity(request) {
      const checks = createChecks();
      const query = capacityQuery(request, checks);
      refuseAll(checks, () => validateGetCapacity(query));
      const { available, maximumVolume, minimumVolume } = await commands.getCapacity(query);
      return {
        availableBytes: BigInt(available),
        maximumVolumeBytes: BigInt(maximumVolume),
        minimumVolumeBytes: BigInt(minimumVolume),
      };
    },

    watchVolumes: (request, { identity, signal }) => watchVolumes(deps, request, () => deps.scopeOf(identity), signal),

    getVolumeStats: async ({ namespace, id, node }) =>
      volumeStatsMessage(await deps.stats.volumeStats({ namespace, id, node })),

    explainVolume: async ({ namespace, id }) => explanationMessage(await commands.explainVolume({ namespace, id })),
  };
};
