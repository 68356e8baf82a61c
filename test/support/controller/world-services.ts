/** The services of one controller of a test's world, without whatever carries their calls. */
import { randomUUID } from "node:crypto";
import type { WiredAccess } from "@holdfast/controller/access-wiring";
import { createClaimService } from "@holdfast/controller/api/claim/claim-service";
import { createEventService } from "@holdfast/controller/api/event/event-service";
import { createNodeService } from "@holdfast/controller/api/node/node-service";
import { createPluginService } from "@holdfast/controller/api/plugin/plugin-service";
import { createRepairService } from "@holdfast/controller/api/repair/repair-service";
import { createSecretService } from "@holdfast/controller/api/secret/secret-service";
import { createVolumeService } from "@holdfast/controller/api/volume/volume-service";
import { createPluginCommands } from "@holdfast/controller/commands/plugin/plugin-commands";
import { createUpgradeCommands } from "@holdfast/controller/commands/upgrade/upgrade-commands";
import { everything } from "@holdfast/controller/domain/access/caller-scope";
import { readableFormats } from "@holdfast/controller/domain/store-format";
import type { NodeRegistry } from "@holdfast/controller/nodes/node-registry-model";
import { nodeChangeKey } from "@holdfast/controller/records/changes";
import { createRosterRecords } from "@holdfast/controller/records/roster-records";
import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { EventServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/event";
import { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import { PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { GrpcServer } from "@holdfast/shared/grpc/server";
import type { Logger } from "@holdfast/shared/log/logger";
import type { World } from "./world.ts";

type Tracing = Parameters<typeof createVolumeService>[0]["tracing"];

const noDetails = { rev: 0, lastHeard: undefined, message: "", dispute: undefined };

export interface WorldServiceOptions {
  /** What callers may see; everything without it. */
  readonly scopeOf?: WiredAccess["scopeOf"];
  /** What a registry of nodes knows beside their records. */
  readonly details?: NodeRegistry["details"];
  readonly policyChanged?: Parameters<typeof createVolumeService>[0]["policyChanged"];
}

export const addWorldServices = (
  server: Pick<GrpcServer, "add">,
  world: World,
  log: Logger,
  tracing: Tracing,
  { scopeOf = () => everything, details = () => undefined, policyChanged = () => undefined }: WorldServiceOptions = {},
): void => {
  const deps = {
    policyChanged,
    get commands() {
      return world.commands;
    },
    get wakeups() {
      return world.changes;
    },
    get stats() {
      return world.stats;
    },
    granted: () => true,
    scopeOf,
    recent: (ref: Parameters<typeof world.records.recent>[0]) => world.records.recent(ref),
    listExternalVolumes: world.listExternalVolumes,
    feed: world.store,
    clock: world.clock,
    tracing,
  };
  server.add(VolumeServiceDefinition, createVolumeService(deps));
  server.add(ClaimServiceDefinition, createClaimService(deps));
  server.add(EventServiceDefinition, createEventService(deps));
  const placement = world.placement();
  server.add(PlacementServiceDefinition, placement.service);
  server.add(
    NodeServiceDefinition,
    createNodeService({
      ...deps,
      get stats() {
        return world.stats;
      },
      get wakeups() {
        return world.changes;
      },
      nodes: world.registry,
      places: placement.places,
      remarks: (node) => ({
        ...noDetails,
        ...details(node),
        overdue: world.drains.overdue(node),
        fenceWaits: world.fences.waitsFor(node),
      }),
      get commands() {
        return world.nodeCommands;
      },
      keyOfNode: nodeChangeKey,
      get log() {
        return world.nodeLog;
      },
    }),
  );
  server.add(
    PluginServiceDefinition,
    createPluginService({
      granted: () => true,
      scopeOf,
      callsOf: () => ({
        breaker: "closed",
        running: 0,
        waiting: 0,
        limit: 64,
        most: 64,
        held: "",
        at: undefined,
        silent: [],
      }),
      get commands() {
        return createPluginCommands({
          ambiguous: () => "",
          records: world.pluginRecords,
          catalogue: world.catalogue,
          count: world.countOf,
          format: () => 4,
        });
      },
      tracing,
      unsigned: async () => "no key is here",
      admission: {
        accept: async ({ socketPath: socket }) => [{ socket, uid: 0, gid: 0, directoryUid: 0, directoryGid: 0 }],
      },
      log,
      get changes() {
        return world.pluginLog;
      },
    }),
  );
  const gate = { state: world.gate.state, findings: () => [], accept: async () => world.gate.set(true) };
  server.add(
    RepairServiceDefinition,
    createRepairService({
      scopeOf,
      gate,
      audit: world.audit,
      clock: world.clock,
      tracing,
      commands: world.repair,
      upgrade: createUpgradeCommands({
        roster: createRosterRecords({
          ...{ store: world.store, clock: world.clock, signal: new AbortController().signal },
          ids: { uuid: randomUUID, random: Math.random },
        }),
        audit: world.audit,
        store: world.store,
        formats: readableFormats,
        clock: world.clock,
      }),
    }),
  );
  server.add(
    SecretServiceDefinition,
    createSecretService({
      tracing,
      scopeOf,
      get secrets() {
        return world.secrets;
      },
    }),
  );
};
