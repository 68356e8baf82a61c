/**
 * The services for programs on this host. Served before a controller was reached, and while none is: what is known of the host is known
 * without one.
 */
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { WorkloadServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import type { GrpcServer } from "@holdfast/shared/grpc/server";
import { createPluginHostService, type PluginHostServiceOptions } from "./plugin-host-service.ts";
import { createWorkloadService, type WorkloadServiceOptions } from "./workload-service.ts";

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
