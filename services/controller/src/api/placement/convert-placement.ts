/** Placement: messages of holdfast.v1 ↔ the query's words. */
import {
  type CheckPlacementRequest,
  type NodePlacement as WireNodePlacement,
  PlacementObstacle as WireObstacle,
  type PlacementReason as WireReason,
} from "@holdfast/shared/gen/holdfast/v1/placement";
import type { CheckPlacementInput, NodePlacement } from "../../commands/placement/placement-model.ts";
import type { PlacementReason } from "../../domain/placement/placement-reason.ts";
import type { Checks } from "../check-request.ts";
import { withTemplate } from "../claim/convert-claim.ts";
import { poolMessage } from "../plugin/convert-plugin.ts";

export const placementInput = (request: CheckPlacementRequest, checks: Checks): CheckPlacementInput => {
  const { namespace, workload } = request;
  return {
    namespace,
    workload,
    claims: request.claims.map((spec, i) =>
      withTemplate(`claims[${i}]`, { namespace, workload, requestId: "" }, spec, checks),
    ),
    nodes: request.nodes,
    after: request.afterWorkloads,
    feasibleOnly: request.feasibleOnly,
  };
};

const reasonMessage = ({ obstacle, holder, topology, slots, ...reason }: PlacementReason): WireReason => ({
  obstacle: WireObstacle[`PLACEMENT_OBSTACLE_${obstacle}`],
  volume: reason.volume,
  plugin: reason.plugin,
  message: reason.message,
  transient: reason.transient,
  holderWorkload: holder?.workload ?? "",
  holderNode: holder?.node ?? "",
  topology: (topology ?? []).map(({ key, wanted, has }) => ({ key, wanted: [...wanted], has })),
  slotsLimit: BigInt(slots?.limit ?? 0),
  slotsUsed: BigInt(slots?.used ?? 0),
  slotsNeeded: BigInt(slots?.needed ?? 0),
  pool: slots?.pool && poolMessage(slots.pool),
});

export const placementMessage = ({ node, reasons, score, placementClass }: NodePlacement): WireNodePlacement => ({
  node,
  feasible: reasons.length === 0,
  reasons: reasons.map(reasonMessage),
  score,
  placementClass,
});
