/** Every RPC of the product, where it is served, and a request about one subject. */
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { WorkloadServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  AgentLinkServiceDefinition,
  ControllerLinkServiceDefinition,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
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
import { namesOf, type Subject } from "./callers.ts";

export const onController = [
  VolumeServiceDefinition,
  ClaimServiceDefinition,
  SnapshotServiceDefinition,
  PlacementServiceDefinition,
  NodeServiceDefinition,
  PluginServiceDefinition,
  RepairServiceDefinition,
  SecretServiceDefinition,
  QuotaServiceDefinition,
  GrantServiceDefinition,
  EventServiceDefinition,
  TrustServiceDefinition,
] as const;
export const onAgent = [AgentServiceDefinition, WorkloadServiceDefinition, PluginHostServiceDefinition] as const;
export const overStream = [AgentLinkServiceDefinition] as const;
export const streams = [ControllerLinkServiceDefinition] as const;

export type Definition =
  | (typeof onController)[number]
  | (typeof onAgent)[number]
  | (typeof overStream)[number]
  | (typeof streams)[number];

export interface Method {
  readonly definition: Definition;
  readonly key: string;
  /** As in docs/api.md. */
  readonly rpc: string;
  readonly path: string;
  readonly responseStream: boolean;
  request(subject: Subject): object;
}

interface Described {
  readonly name: string;
  readonly responseStream: boolean;
  readonly requestType: { fromPartial(partial: object): object };
}

/** Names of everything that any request names; one takes those that it has a field for. */
const partialOf = (definition: Definition, subject: Subject): object => {
  const { node, plugin } = namesOf[subject];
  // Subjects of agents are nodes. In which namespaces they ask for claims is a matter of its own.
  const { namespace } = namesOf[definition === AgentLinkServiceDefinition ? "own" : subject];
  const name = definition === PluginServiceDefinition ? plugin : definition === NodeServiceDefinition ? node : "login";
  return {
    ...{ namespace, node, plugin, name, id: "data", volume: "data", snapshot: "cut", workload: "web", alias: "data" },
    ...{ group: "both", baseSnapshot: "cut", targetSnapshot: "cut", scheduler: "shop", filter: { namespace } },
    ...{ header: { name: node }, externalId: "no-such", fromWorkload: "web", toWorkload: "next", toNode: node },
  };
};

export const methodsOf = (definitions: readonly Definition[]): readonly Method[] =>
  definitions.flatMap((definition) =>
    Object.entries(definition.methods as unknown as Readonly<Record<string, Described>>).map(
      ([key, { name, responseStream, requestType }]) => ({
        definition,
        key,
        rpc: `${definition.fullName}/${name}`,
        path: `/${definition.fullName}/${name}`,
        responseStream,
        request: (subject: Subject) => requestType.fromPartial(partialOf(definition, subject)),
      }),
    ),
  );

export const allMethods: readonly Method[] = methodsOf([...onController, ...overStream, ...streams, ...onAgent]);
