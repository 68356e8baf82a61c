import type { Tri } from "@holdfast/model/tri";
import { wireDuration } from "@holdfast/model/wire-duration";
import {
  AssumedExpansion,
  type AttachPoolSlots,
  type CapabilitySet,
  ControllerPlacement,
  FenceMethod,
  InstanceReach,
  type Plugin,
  type PluginFingerprint,
  PluginHealth,
  type PluginInstance,
  PluginRole,
  type PluginSecret,
  Support,
  type PluginProfile as WireProfile,
} from "@holdfast/shared/gen/holdfast/v1/plugin";
import { attachmentModeMessage } from "@holdfast/shared/grpc/convert-model";
import type { PoolState } from "../../domain/attachment/attach-pool.ts";
import type { NodePlugin } from "../../domain/node/node.ts";
import { type PoolMate, pluginFindings, poolFindings } from "../../domain/plugin/plugin-findings.ts";
import { defaultProfile, type PluginProfile } from "../../domain/plugin/plugin-profile.ts";
import type { MissedInstance } from "../../domain/plugin/plugin-record.ts";
import type { PluginHalf, PluginSighting, PluginSummary } from "../../domain/plugin/plugin-sighting.ts";
import { type Checks, durationMs, ttlSeconds } from "../check-request.ts";
import { blockedMessage, dateOf } from "../convert-message.ts";
import { secretRefFrom, secretRefMessage } from "../secret/convert-secret.ts";

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
  hosted: plugin.hosted === true,
  nodeId: plugin.nodeId,
  maxVolumes: BigInt(plugin.maxVolumes),
  topology: { segments: { ...plugin.topology } },
  capabilities: capabilitySet(plugin.capabilities),
  fingerprintedAt: undefined,
  blocked: blockedMessage(plugin.blocked),
  storageHealth: (plugin.storageHealth ?? []).map(({ attachmentMode, fsType = "", accessMode = "", ...said }) => ({
    ...said,
    attachmentMode: attachmentMode === undefined ? 0 : attachmentModeMessage(attachmentMode),
    fsType,
    accessMode,
  })),
});

const instanceMessage = ({ node, controllerId, socket, plugin }: PluginSighting): PluginInstance => ({
  node,
  controllerId,
  fingerprint: fingerprintMessage(plugin, socket),
});

const expansions: Readonly<Record<PluginProfile["assumedExpansion"], AssumedExpansion>> = {
  offline: AssumedExpansion.ASSUMED_EXPANSION_UNSPECIFIED,
  online: AssumedExpansion.ASSUMED_EXPANSION_ONLINE,
  none: AssumedExpansion.ASSUMED_EXPANSION_NONE,
};

const fences: Readonly<Record<PluginProfile["fence"], FenceMethod>> = {
  none: FenceMethod.FENCE_METHOD_UNSPECIFIED,
  "on-detach": FenceMethod.FENCE_METHOD_ON_DETACH,
};

const placements: Readonly<Record<PluginProfile["controllerPlacement"], ControllerPlacement>> = {
  any: ControllerPlacement.CONTROLLER_PLACEMENT_UNSPECIFIED,
  "beside-controller": ControllerPlacement.CONTROLLER_PLACEMENT_BESIDE_CONTROLLER,
};

const reaches: Readonly<Record<PluginProfile["reach"], InstanceReach>> = {
  auto: InstanceReach.INSTANCE_REACH_UNSPECIFIED,
  all: InstanceReach.INSTANCE_REACH_ALL,
  own: InstanceReach.INSTANCE_REACH_OWN,
};

const wordOf = <W extends string>(
  words: Readonly<Record<W, number>>,
  wire: number,
  field: string,
  checks: Checks,
): W => {
  const [first, ...rest] = Object.keys(words) as [W, ...W[]];
  const found = [first, ...rest].find((word) => words[word] === wire);
  if (found === undefined) checks.complain(field, "is no value that this version knows");
  return found ?? first;
};

export const poolMessage = ({ name, used = 0, limit, saidBy, parts }: PoolState): AttachPoolSlots => ({
  name,
  used: BigInt(used),
  limit: BigInt(limit),
  limitBy: saidBy,
  plugins: parts.map((part) => ({ plugin: part.plugin, used: BigInt(part.used) })),
});

export const profileMessage = (profile: PluginProfile): WireProfile => ({
  maxConcurrentCalls: profile.maxConcurrentCalls,
  maxConcurrentAttachesPerNode: profile.maxConcurrentAttachesPerNode,
  maxVolumesPerNode: BigInt(profile.maxVolumesPerNode),
  nodeClasses: profile.nodeClasses.map(({ nodes, topology, maxVolumes, attachPoolLimit = 0 }) => ({
    nodes,
    topology: { ...topology },
    maxVolumes: BigInt(maxVolumes),
    attachPoolLimit: BigInt(attachPoolLimit),
  })),
  attachPool: profile.attachPool,
  attachPoolLimit: BigInt(profile.attachPoolLimit),
  fence: fences[profile.fence],
  allowedFsTypes: [...profile.allowedFsTypes],
  allowedMountFlags: [...profile.allowedMountFlags],
  allowPathLikeIds: profile.allowPathLikeIds,
  controllerPlacement: placements[profile.controllerPlacement],
  assumedExpansion: expansions[profile.assumedExpansion],
  codeReadings: profile.codeReadings.map(({ method, code, readAs }) => ({ csiMethod: method, code, readAs })),
  exclusiveMethods: [...profile.exclusiveMethods],
  reach: reaches[profile.reach],
  ignoreCondition: profile.ignoreCondition,
  nodeHealthSecret: profile.nodeHealthSecret && {
    secret: secretRefMessage(profile.nodeHealthSecret.ref),
    namespace: profile.nodeHealthSecret.namespace,
  },
  tokenRequests: profile.tokenRequests.map(({ audience, ttlSeconds }) => ({
    audience,
    expiration: wireDuration(ttlSeconds * 1000),
  })),
  requiresRepublish: profile.requiresRepublish,
  republishInterval: profile.republishIntervalMs === 0 ? undefined : wireDuration(profile.republishIntervalMs),
  tokensInVolumeContext: profile.tokensInVolumeContext,
});

const secretFrom = (wire: PluginSecret | undefined): Pick<PluginProfile, "nodeHealthSecret"> =>
  wire === undefined
    ? {}
    : {
        nodeHealthSecret: { ref: secretRefFrom(wire.namespace, wire.secret) ?? "", namespace: wire.namespace },
      };

/** As it was sent: zeros are not filled in yet, and what has no word here is complained of. */
export const profileFrom = (wire: WireProfile | undefined, checks: Checks): PluginProfile =>
  wire === undefined
    ? defaultProfile
    : {
        maxConcurrentCalls: wire.maxConcurrentCalls,
        maxConcurrentAttachesPerNode: wire.maxConcurrentAttachesPerNode,
        maxVolumesPerNode: Number(wire.maxVolumesPerNode),
        nodeClasses: wire.nodeClasses.map(({ nodes, topology, maxVolumes, attachPoolLimit }) => ({
          nodes,
          topology,
          maxVolumes: Number(maxVolumes),
          attachPoolLimit: Number(attachPoolLimit),
        })),
        attachPool: wire.attachPool,
        attachPoolLimit: Number(wire.attachPoolLimit),
        fence: wordOf(fences, wire.fence, "profile.fence", checks),
        allowedFsTypes: wire.allowedFsTypes,
        allowedMountFlags: wire.allowedMountFlags,
        allowPathLikeIds: wire.allowPathLikeIds,
        controllerPlacement: wordOf(placements, wire.controllerPlacement, "profile.controller_placement", checks),
        assumedExpansion: wordOf(expansions, wire.assumedExpansion, "profile.assumed_expansion", checks),
        codeReadings: wire.codeReadings.map(({ csiMethod, code, readAs }) => ({ method: csiMethod, code, readAs })),
        exclusiveMethods: wire.exclusiveMethods,
        reach: wordOf(reaches, wire.reach, "profile.reach", checks),
        ignoreCondition: wire.ignoreCondition,
        ...secretFrom(wire.nodeHealthSecret),
        tokenRequests: wire.tokenRequests.map(({ audience, expiration }, i) => ({
          audience,
          ttlSeconds: ttlSeconds(`profile.token_requests[${i}].expiration`, expiration, checks),
        })),
        requiresRepublish: wire.requiresRepublish,
        republishIntervalMs: durationMs("profile.republish_interval", wire.republishInterval, checks) ?? 0,
        tokensInVolumeContext: wire.tokensInVolumeContext,
      };

/** A plugin may run on every node of a cell; a message holds so many of its instances. */
const shownInstances = 200;

export interface PluginParts {
  readonly name: string;
  readonly sightings: readonly PluginSighting[];
  readonly summary: PluginSummary;
  readonly profile: PluginProfile;
  readonly rev: number;
  readonly emptySince: number | undefined;
  readonly missed: Readonly<Record<string, MissedInstance>>;
  readonly poolMates: readonly PoolMate[];
}

const halfMessage = ({ healthy, expected }: PluginHalf) => ({ healthy: BigInt(healthy), expected: BigInt(expected) });

export const pluginMessage = (parts: PluginParts, volumes = 0): Plugin => {
  const { summary } = parts;
  return {
    name: parts.name,
    instances: parts.sightings.slice(0, shownInstances).map(instanceMessage),
    profile: profileMessage(parts.profile),
    schedulable: summary.missing === "",
    unschedulableBecause: summary.missing,
    controllerRequired: support[summary.controllerRequired],
    volumeCount: BigInt(volumes),
    revision: BigInt(parts.rev),
    controller: halfMessage(summary.controller),
    node: halfMessage(summary.node),
    versions: [...summary.versions],
    capabilities: capabilitySet(summary.capabilities),
    emptySince: dateOf(parts.emptySince),
    calls: undefined,
    tokensUnsignedBecause: "",
    findings: [
      ...pluginFindings(parts.name, summary.capabilities),
      ...poolFindings(parts.name, parts.profile, parts.poolMates),
    ],
    attachPoolWith: parts.poolMates.map(({ plugin }) => plugin),
    missed: Object.entries(parts.missed)
      .slice(0, shownInstances)
      .map(([node, { version, since }]) => ({ node, version, since: new Date(since) })),
  };
};
