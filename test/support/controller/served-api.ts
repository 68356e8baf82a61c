/** The API of one controller of a test's world, on a real socket. */
import { randomUUID } from "node:crypto";
import type { WiredAccess } from "@holdfast/controller/access-wiring";
import { createClaimService } from "@holdfast/controller/api/claim/claim-service";
import { createEventService } from "@holdfast/controller/api/event/event-service";
import { createNodeService } from "@holdfast/controller/api/node/node-service";
import { createPluginService } from "@holdfast/controller/api/plugin/plugin-service";
import { createRepairService } from "@holdfast/controller/api/repair/repair-service";
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
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { tempSocket } from "@holdfast/shared/testing/temp-socket";
import type { World } from "./world.ts";

export type ServedApi = Awaited<ReturnType<typeof serveApi>>;

const noDetails = { rev: 0, lastHeard: undefined, message: "", dispute: undefined };

export interface ServedApiOptions {
  /** Who may call what; everybody may call everything without it. */
  readonly access?: Pick<WiredAccess, "access" | "scopeOf">;
  /** What a registry of nodes knows beside their records. */
  readonly details?: NodeRegistry["details"];
}

export const serveApi = async (world: World, { access, details = () => undefined }: ServedApiOptions = {}) => {
  const socket = await tempSocket();
  const log = createMemoryLogger();
  const server = createGrpcServer({ log, ...(access && { access: access.access }) });
  const scopeOf = access?.scopeOf ?? (() => everything);
  const tracing = { currentTraceparent: () => traceparent } as Parameters<typeof createVolumeService>[0]["tracing"];
  let traceparent: string | undefined;
  const deps = {
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
  await server.listen(socket.address);
  const channel = createGrpcChannel(socket.address);
  const clientsOf = (identity: Identity) => {
    const options = { log, identity };
    return {
      volumes: createGrpcClient(VolumeServiceDefinition, channel, options),
      events: createGrpcClient(EventServiceDefinition, channel, options),
      claims: createGrpcClient(ClaimServiceDefinition, channel, options),
      nodes: createGrpcClient(NodeServiceDefinition, channel, options),
      placement: createGrpcClient(PlacementServiceDefinition, channel, options),
      plugins: createGrpcClient(PluginServiceDefinition, channel, options),
      repair: createGrpcClient(RepairServiceDefinition, channel, options),
    };
  };
  return {
    ...clientsOf({ role: "scheduler", name: "s1" }),
    /** As another caller. */
    as: clientsOf,
    address: socket.address,
    /** In which trace the next requests arrive. */
    trace(next: string | undefined) {
      traceparent = next;
    },
    async close() {
      channel.close();
      await server.stop({ graceMs: 0 });
      await socket.remove();
    },
  };
};
