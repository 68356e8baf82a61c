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

export function instanceExists(
  known: HostedInstance,
  asked: HostedInstance,
  field: keyof HostedInstance,
): HoldfastError {
  const { allocation, plugin } = known;
  return new HoldfastError({
    kind: "already_exists",
    reason: "PLUGIN_INSTANCE_EXISTS",
    message: `plugin ${plugin} is prepared in allocation ${allocation} with ${field} ${known[field]}, and asked for with ${asked[field]}: stop it first, or use another allocation`,
    metadata: { plugin, allocation, field },
  });
}

export function instanceNotFound(allocation: string, plugin: string | undefined): HoldfastError {
  return new HoldfastError({
    kind: "not_found",
    reason: "PLUGIN_INSTANCE_NOT_FOUND",
    message: `no ${plugin === undefined ? "plugin instance" : `instance of plugin ${plugin}`} of allocation ${allocation} is prepared here: call PreparePlugin first`,
    metadata: { allocation, plugin: plugin ?? "" },
  });
}
