/** What a runner is told when its plugin cannot be prepared, followed or stopped. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { HostedInstance, RegistryEntry } from "../../domain/plugin-registry.ts";

export function refuseWhileNeeded({ instance }: RegistryEntry, volumes: readonly string[]): void {
  const [volume] = volumes;
  if (volume === undefined) return;
  const { plugin, allocation } = instance;
  const named = volumes.slice(0, 10).join(", ");
  throw new HoldfastError({
    kind: "precondition",
    reason: "PLUGIN_IN_USE",
    message: `plugin ${plugin} (allocation ${allocation}) is needed by ${volumes.length} volumes on this node: ${named}; release them, start a newer instance beside it, or stop it with leave_volumes`,
    metadata: { plugin, allocation, volume, count: String(volumes.length) },
  });
}

export function instanceExists({ allocation, plugin }: HostedInstance, field: string): HoldfastError {
  return new HoldfastError({
    kind: "already_exists",
    reason: "PLUGIN_INSTANCE_EXISTS",
    message: `allocation ${allocation} of plugin ${plugin} is prepared with another ${field}: stop it first, or use another allocation`,
    metadata: { allocation, field },
  });
}

export function instanceNotFound(allocation: string): HoldfastError {
  return new HoldfastError({
    kind: "not_found",
    reason: "PLUGIN_INSTANCE_NOT_FOUND",
    message: `no plugin instance of allocation ${allocation} is prepared here: call PreparePlugin first`,
    metadata: { allocation },
  });
}
