/** All gRPC services of the agent, those included that are in the API only. */
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { WorkloadServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { GrpcServer } from "@holdfast/shared/grpc/server";
import { type AgentServiceOptions, createAgentService } from "./agent-service.ts";
import { createPluginHostService, type PluginHostServiceOptions } from "./plugin-host-service.ts";
import { unimplementedService } from "./unimplemented.ts";

/** The answer is called when orders are taken: health says so from then on. */
export function addAgentServices(
  server: GrpcServer,
  options: AgentServiceOptions & { readonly pluginHost: PluginHostServiceOptions },
): () => void {
  server.add(AgentServiceDefinition, createAgentService(options));
  server.add(WorkloadServiceDefinition, unimplementedService(WorkloadServiceDefinition));
  server.add(PluginHostServiceDefinition, createPluginHostService(options.pluginHost));
  return () => {
    for (const service of ["", AgentServiceDefinition.fullName]) server.setServing(service, true);
  };
}
