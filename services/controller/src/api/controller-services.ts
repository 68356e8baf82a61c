import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { EventServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/event";
import { GrantServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/grant";
import { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import { PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { TrustServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/trust";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { CallMiddleware, GrpcServer } from "@holdfast/shared/grpc/server";
import type { CompatServiceDefinition } from "nice-grpc";
import type { ServedService } from "./audit/audit-middleware.ts";

export interface ControllerServices {
  readonly volumes: Implementation<typeof VolumeServiceDefinition>;
  readonly claims: Implementation<typeof ClaimServiceDefinition>;
  readonly nodes: Implementation<typeof NodeServiceDefinition>;
  readonly plugins: Implementation<typeof PluginServiceDefinition>;
  readonly snapshots: Implementation<typeof SnapshotServiceDefinition>;
  readonly placement: Implementation<typeof PlacementServiceDefinition>;
  readonly repair: Implementation<typeof RepairServiceDefinition>;
  readonly secrets: Implementation<typeof SecretServiceDefinition>;
  readonly quotas: Implementation<typeof QuotaServiceDefinition>;
  readonly grants: Implementation<typeof GrantServiceDefinition>;
  readonly events: Implementation<typeof EventServiceDefinition>;
  readonly trust: Implementation<typeof TrustServiceDefinition>;
}

/**
 * Every service of the API is served, also those of which nothing is there yet: they say so. Answers the names of the others. `around`: what
 * surrounds the calls of one.
 */
export const addControllerServices = (
  server: Pick<GrpcServer, "add">,
  services: ControllerServices,
  around: (definition: ServedService) => readonly CallMiddleware[],
): readonly string[] => {
  const add = <Definition extends ServedService & CompatServiceDefinition>(
    definition: Definition,
    implementation: Implementation<Definition>,
  ): string => {
    server.add(definition, implementation, { middlewares: around(definition) });
    return definition.fullName;
  };
  return [
    add(VolumeServiceDefinition, services.volumes),
    add(ClaimServiceDefinition, services.claims),
    add(NodeServiceDefinition, services.nodes),
    add(PluginServiceDefinition, services.plugins),
    add(RepairServiceDefinition, services.repair),
    add(SnapshotServiceDefinition, services.snapshots),
    add(PlacementServiceDefinition, services.placement),
    add(SecretServiceDefinition, services.secrets),
    add(QuotaServiceDefinition, services.quotas),
    add(GrantServiceDefinition, services.grants),
    add(EventServiceDefinition, services.events),
    add(TrustServiceDefinition, services.trust),
  ];
};
