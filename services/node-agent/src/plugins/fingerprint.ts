/** What the controller is told of one plugin instance: facts once per connection, health whenever it changes. */
import type { PluginFacts } from "@holdfast/csi/capabilities";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { PluginPhase, PluginStatus } from "@holdfast/csi/plugin-status";
import type { StorageHealthEntry } from "@holdfast/model/health";
import type { Tri } from "@holdfast/model/tri";
import { AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import {
  type CapabilitySet,
  PluginFingerprint,
  PluginHealth,
  PluginRole,
  Support,
  type StorageHealthEntry as WireStorageHealth,
} from "@holdfast/shared/gen/holdfast/v1/plugin";
import { attachmentModeMessage } from "@holdfast/shared/grpc/convert-model";

type Fingerprinted = Pick<PluginConnection, "socketPath" | "instanceId" | "role" | "pin" | "status">;

/**
 * Undefined for an instance that did not say who it is; one that says it is another than before is told as who it was. One that announces
 * a name that is another's is told only while there is no other: it must not speak for the plugin beside the true one.
 */
export function fingerprintOf(
  connection: Fingerprinted,
  all: readonly Fingerprinted[] = [],
  {
    hosted = false,
    storage = [],
  }: { readonly hosted?: boolean; readonly storage?: readonly StorageHealthEntry[] } = {},
): PluginFingerprint | undefined {
  const { facts, phase, impostorOf } = connection.status();
  const { name } = connection.pin();
  const alone = impostorOf !== undefined && !all.some((one) => one.pin().name === impostorOf);
  const stranger = phase === "quarantined" && (name !== undefined || alone);
  if (facts === undefined && !stranger) return undefined;
  return { ...instanceFingerprint(connection, hosted), storageHealth: storage.map(storageMessage) };
}

const storageMessage = ({ status, reason, message, ...use }: StorageHealthEntry): WireStorageHealth => ({
  status,
  reason,
  message,
  attachmentMode:
    use.attachmentMode === undefined
      ? AttachmentMode.ATTACHMENT_MODE_UNSPECIFIED
      : attachmentModeMessage(use.attachmentMode),
  fsType: use.fsType ?? "",
  accessMode: use.accessMode ?? "",
});

/** What is known of it, be it little. */
export function instanceFingerprint(connection: Fingerprinted, hosted: boolean): PluginFingerprint {
  const status = connection.status();
  const { facts } = status;
  const pin = connection.pin();
  const plugin = facts?.name ?? pin.name ?? status.impostorOf ?? "";
  return PluginFingerprint.fromPartial({
    plugin,
    hosted,
    version: facts?.version ?? "",
    instanceId: connection.instanceId,
    role: roles[facts?.role ?? connection.role],
    socket: connection.socketPath,
    health: healthOf[status.phase],
    healthMessage: status.reason ?? "",
    nodeId: facts?.nodeInfo?.nodeId ?? pin.nodeId ?? "",
    maxVolumes: BigInt(facts?.nodeInfo?.maxVolumes ?? 0),
    topology: facts?.nodeInfo === undefined ? undefined : { segments: { ...facts.nodeInfo.topology } },
    capabilities: facts === undefined ? undefined : capabilitiesOf(facts),
    fingerprintedAt: new Date(status.since),
    blocked: blockedOf(status, plugin, hosted),
  });
}

const roles: Record<PluginFacts["role"], PluginRole> = {
  controller: PluginRole.PLUGIN_ROLE_CONTROLLER,
  node: PluginRole.PLUGIN_ROLE_NODE,
  monolith: PluginRole.PLUGIN_ROLE_MONOLITH,
};

const healthOf: Record<PluginPhase, PluginHealth> = {
  waiting: PluginHealth.PLUGIN_HEALTH_UNHEALTHY,
  connecting: PluginHealth.PLUGIN_HEALTH_UNHEALTHY,
  initialising: PluginHealth.PLUGIN_HEALTH_INITIALISING,
  ready: PluginHealth.PLUGIN_HEALTH_HEALTHY,
  unhealthy: PluginHealth.PLUGIN_HEALTH_UNHEALTHY,
  quarantined: PluginHealth.PLUGIN_HEALTH_UNHEALTHY,
  closed: PluginHealth.PLUGIN_HEALTH_UNHEALTHY,
};

function blockedOf(
  { phase, since, reason, impostorOf }: PluginStatus,
  plugin: string,
  hosted: boolean,
): PluginFingerprint["blocked"] {
  if (phase !== "quarantined") return undefined;
  if (impostorOf !== undefined)
    return {
      since: new Date(since),
      reason: "PLUGIN_IMPOSTOR",
      message: reason ?? "its name is bound to another socket",
      missingProof: "a person's word that the plugin may have its name at this socket",
      clearWith: "stop what listens there, or accept it as the message says",
    };
  return {
    since: new Date(since),
    reason: "PLUGIN_IDENTITY_CHANGED",
    message: reason ?? "the plugin came back under another name or node id",
    missingProof: "that it is the same plugin for the same node",
    clearWith: identityCure(plugin, hosted),
  };
}

/** What it was before is kept in the journal for an instance that a runner hosts, and for any other by this process alone. */
function identityCure(plugin: string, hosted: boolean): string {
  const unused = `when this one is meant: release what this shows for the node: holdfast claim list -A --plugin ${plugin}`;
  return hosted
    ? `have its runner start the right plugin there; ${unused}; then have the runner stop each instance of ${plugin} on the node (StopPlugin), and prepare it anew`
    : `start the right plugin on this socket; ${unused}; then correct its id in plugins.json, if it has one there, and "systemctl restart holdfast-node-agent"`;
}

function capabilitiesOf({ plugin, controller, node, group }: PluginFacts): CapabilitySet {
  return {
    plugin: supports(plugin),
    controller: supports(controller),
    node: supports(node),
    groupController: supports(group),
  };
}

/** "Not known yet" is left out: a name that is missing is not a no. */
function supports(standings: Readonly<Record<string, Tri>>): Record<string, Support> {
  const said = Object.entries(standings).filter(([, standing]) => standing !== "unknown");
  return Object.fromEntries(
    said.map(([name, tri]) => [name, tri === "yes" ? Support.SUPPORT_YES : Support.SUPPORT_NO]),
  );
}
