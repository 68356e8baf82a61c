/** What agents report of the plugins of their nodes, and of the way from there to the storage. */

import { accessModes } from "@holdfast/model/access";
import { isStorageHealthStatus, type StorageHealthEntry } from "@holdfast/model/health";
import type { Tri } from "@holdfast/model/tri";
import { wholeNumber } from "@holdfast/model/whole-number";
import {
  type CapabilitySet,
  type PluginFingerprint,
  PluginHealth,
  PluginRole,
  Support,
  type StorageHealthEntry as WireStorageHealth,
} from "@holdfast/shared/gen/holdfast/v1/plugin";
import { attachmentModeFrom } from "@holdfast/shared/grpc/convert-model";
import { scrub } from "@holdfast/shared/grpc/redact";
import type { NodePlugin } from "../domain/node/node.ts";

const unrecognised = /^UNRECOGNISED\((-?\d+)\)$/;

const accessModeFrom = (word: string): NonNullable<StorageHealthEntry["accessMode"]> =>
  accessModes.find((mode) => mode === word) ?? `UNRECOGNISED(${Number(unrecognised.exec(word)?.[1] ?? -1)})`;

/** What is no status of ours nor UNRECOGNISED(n) is left out. */
const storageHealthFrom = (
  said: readonly WireStorageHealth[],
): { readonly storageHealth?: readonly StorageHealthEntry[] } => {
  const storageHealth = said.flatMap(({ status, reason, message, ...use }): StorageHealthEntry[] => {
    if (!isStorageHealthStatus(status)) return [];
    const attachmentMode = attachmentModeFrom(use.attachmentMode);
    return [
      {
        status,
        reason,
        message: scrub(message, []),
        ...(attachmentMode === undefined ? {} : { attachmentMode }),
        ...(use.fsType === "" ? {} : { fsType: use.fsType }),
        ...(use.accessMode === "" ? {} : { accessMode: accessModeFrom(use.accessMode) }),
      },
    ];
  });
  return storageHealth.length === 0 ? {} : { storageHealth };
};

const roles: Readonly<Record<number, NodePlugin["role"]>> = {
  [PluginRole.PLUGIN_ROLE_CONTROLLER]: "CONTROLLER",
  [PluginRole.PLUGIN_ROLE_NODE]: "NODE",
  [PluginRole.PLUGIN_ROLE_MONOLITH]: "MONOLITH",
};

const healths: Readonly<Record<number, NodePlugin["health"]>> = {
  [PluginHealth.PLUGIN_HEALTH_HEALTHY]: "HEALTHY",
  [PluginHealth.PLUGIN_HEALTH_UNHEALTHY]: "UNHEALTHY",
  [PluginHealth.PLUGIN_HEALTH_INITIALISING]: "INITIALISING",
};

const standing: Readonly<Record<number, Tri>> = {
  [Support.SUPPORT_YES]: "yes",
  [Support.SUPPORT_NO]: "no",
};

/** One flat table, a name with the family in front: `node:STAGE_UNSTAGE_VOLUME`. */
const capabilitiesFrom = (set: CapabilitySet | undefined): NodePlugin["capabilities"] => {
  const families = { plugin: set?.plugin, controller: set?.controller, node: set?.node, group: set?.groupController };
  return Object.fromEntries(
    Object.entries(families).flatMap(([family, names]) =>
      Object.entries(names ?? {}).map(([name, support]) => [`${family}:${name}`, standing[support] ?? "unknown"]),
    ),
  );
};

const blockedFrom = (said: PluginFingerprint["blocked"]): Pick<NodePlugin, "blocked"> => {
  if (said === undefined) return {};
  const { since, reason, message, missingProof, clearWith } = said;
  return { blocked: { since: since?.getTime() ?? 0, reason, message, missingProof, clearWith } };
};

export const nodePluginFrom = (print: PluginFingerprint): NodePlugin => ({
  name: print.plugin,
  version: print.version,
  instance: print.instanceId,
  role: roles[print.role] ?? "NODE",
  // An instance that came back as somebody else gets no calls.
  health: print.blocked === undefined ? (healths[print.health] ?? "INITIALISING") : "UNHEALTHY",
  healthMessage: print.blocked?.message ?? print.healthMessage,
  ...blockedFrom(print.blocked),
  ...(print.hosted ? { hosted: true } : {}),
  nodeId: print.nodeId,
  maxVolumes: wholeNumber(print.maxVolumes),
  topology: { ...print.topology?.segments },
  capabilities: capabilitiesFrom(print.capabilities),
  ...storageHealthFrom(print.storageHealth),
});
