/**
 * The services for programs on this host. Served before a controller was reached, and while none is: what is known of the host is known
 * without one.
 */
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { WorkloadServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { GrpcServer } from "@holdfast/shared/grpc/server";
import { createPluginHostService, type PluginHostServiceOptions } from "./plugin-host-service.ts";
import { createWorkloadService, type WorkloadServiceOptions } from "./workload-service.ts";

/** Every service for programs on this host. */
export const localDefinitions = {
  workloads: WorkloadServiceDefinition,
  pluginHost: PluginHostServiceDefinition,
} as const;

export type LocalServices = {
  readonly [Name in keyof typeof localDefinitions]: Implementation<(typeof localDefinitions)[Name]>;
};

export function addLocalServices(
  server: Pick<GrpcServer, "add" | "setServing">,
  options: { readonly workloads: WorkloadServiceOptions; readonly pluginHost: PluginHostServiceOptions },
): () => void {
  const services: LocalServices = {
    workloads: createWorkloadService(options.workloads),
    pluginHost: createPluginHostService(options.pluginHost),
  };
  const add = <Name extends keyof LocalServices>(name: Name): string => {
    const definition: (typeof localDefinitions)[Name] = localDefinitions[name];
    server.add(definition, services[name]);
    return definition.fullName;
  };
  const names = (Object.keys(localDefinitions) as (keyof LocalServices)[]).map(add);
  return () => {
    for (const service of ["", ...names]) server.setServing(service, true);
  };
}
