import {
  type CapabilitySet,
  type Plugin,
  type PluginFingerprint,
  PluginHealth,
  type PluginInstance,
  PluginRole,
  Support,
} from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { NodePlugin, Tri } from "../domain/node.ts";

/** One instance of a plugin: on a node, or beside this controller. */
export interface PluginSighting {
  readonly node: string;
  readonly controllerId: string;
  readonly socket: string;
  readonly plugin: NodePlugin;
}

const support: Readonly<Record<Tri, Support>> = {
  yes: Support.SUPPORT_YES,
  no: Support.SUPPORT_NO,
  unknown: Support.SUPPORT_UNSPECIFIED,
};

/** The flat table of a fingerprint, family by family. */
const capabilitySet = (capabilities: NodePlugin["capabilities"]): CapabilitySet => {
  const family = (prefix: string): Record<string, Support> =>
    Object.fromEntries(
      Object.entries(capabilities)
        .filter(([name]) => name.startsWith(`${prefix}:`))
        .map(([name, standing]) => [name.slice(prefix.length + 1), support[standing]]),
    );
  return {
    plugin: family("plugin"),
    controller: family("controller"),
    node: family("node"),
    groupController: family("group"),
  };
};

export const fingerprintMessage = (plugin: NodePlugin, socket = ""): PluginFingerprint => ({
  plugin: plugin.name,
  version: plugin.version,
  instanceId: plugin.instance,
  role: PluginRole[`PLUGIN_ROLE_${plugin.role}`],
  socket,
  health: PluginHealth[`PLUGIN_HEALTH_${plugin.health}`],
  healthMessage: plugin.healthMessage,
  nodeId: plugin.nodeId,
  maxVolumes: BigInt(plugin.maxVolumes),
  topology: { segments: { ...plugin.topology } },
  capabilities: capabilitySet(plugin.capabilities),
  fingerprintedAt: undefined,
  blocked: undefined,
});

const instanceMessage = ({ node, controllerId, socket, plugin }: PluginSighting): PluginInstance => ({
  node,
  controllerId,
  fingerprint: fingerprintMessage(plugin, socket),
});

/** What is missing before volumes of a plugin can be used anywhere, in one sentence; empty for nothing. */
const missingFor = (name: string, sightings: readonly PluginSighting[], controllerRequired: Tri): string => {
  const healthy = sightings.filter(({ plugin }) => plugin.health === "HEALTHY").map(({ plugin }) => plugin.role);
  if (!healthy.some((role) => role !== "CONTROLLER")) return `no node has a healthy instance of plugin ${name}`;
  if (controllerRequired !== "no" && !healthy.some((role) => role !== "NODE"))
    return `no healthy instance of the controller half of plugin ${name} was seen`;
  return "";
};

const controllerRequired = (sightings: readonly PluginSighting[]): Tri => {
  const said = sightings.map(({ plugin }) => plugin.capabilities["plugin:CONTROLLER_SERVICE"] ?? "unknown");
  if (said.includes("yes")) return "yes";
  return said.includes("no") ? "no" : "unknown";
};

export const pluginMessage = (name: string, sightings: readonly PluginSighting[]): Plugin => {
  const required = controllerRequired(sightings);
  const missing = missingFor(name, sightings, required);
  return {
    name,
    instances: sightings.map(instanceMessage),
    profile: undefined,
    schedulable: missing === "",
    unschedulableBecause: missing,
    controllerRequired: support[required],
    volumeCount: 0n,
    revision: 0n,
  };
};
