/** All gRPC services of the agent, by who may reach them: controllers, and the programs of this host. */
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { WorkloadServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { pluginMaxMessageBytes } from "@holdfast/shared/grpc/message-limits";
import type { GrpcServer, ServerLimits } from "@holdfast/shared/grpc/server";
import { type AgentServiceOptions, createAgentService } from "./agent-service.ts";
import { createPluginHostService, type PluginHostServiceOptions } from "./plugin-host-service.ts";
import { createWorkloadService, type WorkloadServiceOptions } from "./workload-service.ts";

/**
 * A controller has one connection: relayed calls to a plugin that hangs must not hold its permits back. Connections have no age here, so
 * that no permit is cut by one.
 */
export const agentServerLimits: ServerLimits = {
  maxMessageBytes: pluginMaxMessageBytes,
  maxConcurrentStreams: 512,
};

/** The answer is called when orders are taken: health says so from then on. */
export function addAgentServices(server: GrpcServer, options: AgentServiceOptions): () => void {
  server.add(AgentServiceDefinition, createAgentService(options));
  return () => {
    for (const service of ["", AgentServiceDefinition.fullName]) server.setServing(service, true);
  };
}

/**
 * For programs on this host. Served before a controller was reached, and while none is: what is known of the host is known
 * without one.
 */
export function addLocalServices(
  server: Pick<GrpcServer, "add" | "setServing">,
  options: { readonly workloads: WorkloadServiceOptions; readonly pluginHost: PluginHostServiceOptions },
): () => void {
  server.add(WorkloadServiceDefinition, createWorkloadService(options.workloads));
  server.add(PluginHostServiceDefinition, createPluginHostService(options.pluginHost));
  return () => {
    for (const service of ["", WorkloadServiceDefinition.fullName, PluginHostServiceDefinition.fullName])
      server.setServing(service, true);
  };
}
