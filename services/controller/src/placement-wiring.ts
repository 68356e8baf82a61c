/** A part of the composition root: where volumes can be used. */
import { createPlacementService } from "./api/placement/placement-service.ts";
import type { CommandDeps } from "./commands/command-deps.ts";
import { createNodePlaces } from "./commands/node/node-places.ts";
import { checkPlacementQuery } from "./commands/placement/check-placement.ts";
import { createKnownCapacity } from "./commands/placement/known-capacity.ts";
import { createTemplateVolumes } from "./commands/placement/template-volumes.ts";
import { createNodeIndex } from "./records/node-index.ts";
import type { QuotaRecords } from "./records/quota/quota-records.ts";

export const wirePlacement = (
  command: Omit<CommandDeps, "feed" | "ids">,
  quotas: Pick<QuotaRecords, "get">,
  signal: AbortSignal,
) => {
  const { nodes, records, plugins, gate, clock, secrets } = command;
  const index = createNodeIndex(nodes, signal);
  const capacityOf = createKnownCapacity({ plugins, clock }, signal);
  const checkPlacement = checkPlacementQuery({
    ...{ records, plugins, gate, secrets, index, capacityOf },
    templates: createTemplateVolumes({ ...command, quotas }),
  });
  return {
    places: createNodePlaces({ index, records }),
    checkPlacement,
    service: createPlacementService({ checkPlacement, granted: secrets.granted }),
  };
};
