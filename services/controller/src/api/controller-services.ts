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
import type { ServedService } from "./audit/audit-middleware.ts";

/** Every service of the API. */
export const controllerDefinitions = {
  volumes: VolumeServiceDefinition,
  claims: ClaimServiceDefinition,
  nodes: NodeServiceDefinition,
  plugins: PluginServiceDefinition,
  repair: RepairServiceDefinition,
  snapshots: SnapshotServiceDefinition,
  placement: PlacementServiceDefinition,
  secrets: SecretServiceDefinition,
  quotas: QuotaServiceDefinition,
  grants: GrantServiceDefinition,
  events: EventServiceDefinition,
  trust: TrustServiceDefinition,
} as const;

type Definitions = typeof controllerDefinitions;

export type ControllerServices = { readonly [Name in keyof Definitions]: Implementation<Definitions[Name]> };

/**
 * Every service of the API is served, also those of which nothing is there yet: they say so. Answers the names of the others. `around`: what
 * surrounds the calls of one.
 */
export const addControllerServices = (
  server: Pick<GrpcServer, "add">,
  services: ControllerServices,
  around: (definition: ServedService) => readonly CallMiddleware[],
): readonly string[] => {
  const add = <Name extends keyof Definitions>(name: Name): string => {
    const definition: Definitions[Name] = controllerDefinitions[name];
    server.add(definition, services[name], { middlewares: around(definition) });
    return definition.fullName;
  };
  return (Object.keys(controllerDefinitions) as (keyof Definitions)[]).map(add);
};
