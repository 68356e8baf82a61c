/** A part of the composition root: where volumes can be used. */
import { createPlacementService } from "./api/placement/placement-service.ts";
import type { CommandDeps } from "./commands/command-deps.ts";
import { createNodePlaces } from "./commands/node/node-places.ts";
import { checkPlacementQuery } from "./commands/placement/check-placement.ts";
import { createKnownCapacity } from "./commands/placement/known-capacity.ts";
import { createNodeIndex } from "./records/node-index.ts";

export const wirePlacement = (
  { nodes, records, plugins, gate, clock }: Pick<CommandDeps, "nodes" | "records" | "plugins" | "gate" | "clock">,
  signal: AbortSignal,
) => {
  const index = createNodeIndex(nodes, signal);
  const capacityOf = createKnownCapacity({ plugins, clock }, signal);
  return {
    places: createNodePlaces({ index, records }),
    service: createPlacementService({
      checkPlacement: checkPlacementQuery({ records, plugins, gate, index, capacityOf }),
    }),
  };
};
