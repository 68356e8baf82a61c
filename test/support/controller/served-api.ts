/** The API of one controller of a test's world, on a real socket. */
import type { WiredAccess } from "@holdfast/controller/access-wiring";
import { everything } from "@holdfast/controller/domain/access/caller-scope";
import type { NodeRegistry } from "@holdfast/controller/nodes/node-registry-model";
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
import { addWorldServices } from "./world-services.ts";

export type ServedApi = Awaited<ReturnType<typeof serveApi>>;

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
  const tracing = { currentTraceparent: () => traceparent } as Parameters<typeof addWorldServices>[3];
  let traceparent: string | undefined;
  const changedPolicies: string[] = [];
  const policyChanged = ({ id }: { readonly id: string }) => void changedPolicies.push(id);
  addWorldServices(server, world, log, tracing, { scopeOf, details, policyChanged });
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
    /** Volumes whose agents were told. */
    changedPolicies,
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
