import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { EventServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/event";
import { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import { PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { GrpcServer } from "@holdfast/shared/grpc/server";

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
  readonly events: Implementation<typeof EventServiceDefinition>;
}

/** Every service of the API is served, also those of which nothing is there yet: they say so. Answers the names of the others. */
export const addControllerServices = (
  server: Pick<GrpcServer, "add">,
  services: ControllerServices,
): readonly string[] => {
  server.add(VolumeServiceDefinition, services.volumes);
  server.add(ClaimServiceDefinition, services.claims);
  server.add(NodeServiceDefinition, services.nodes);
  server.add(PluginServiceDefinition, services.plugins);
  server.add(RepairServiceDefinition, services.repair);
  server.add(SnapshotServiceDefinition, services.snapshots);
  server.add(PlacementServiceDefinition, services.placement);
  server.add(SecretServiceDefinition, services.secrets);
  server.add(QuotaServiceDefinition, services.quotas);
  server.add(EventServiceDefinition, services.events);
  return [
    VolumeServiceDefinition,
    ClaimServiceDefinition,
    NodeServiceDefinition,
    PluginServiceDefinition,
    PlacementServiceDefinition,
    RepairServiceDefinition,
    SecretServiceDefinition,
    QuotaServiceDefinition,
    EventServiceDefinition,
    SnapshotServiceDefinition,
  ].map(({ fullName }) => fullName);
};
