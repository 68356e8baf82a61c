import { VolumeUsage_Unit as Unit, type VolumeCapability } from "@holdfast/shared/gen/csi/v1/csi";
import { nodePublishArguments, stageArguments } from "../arguments.ts";
import { dropUses, putUse } from "../model.ts";
import type { Effects } from "./effect.ts";

export const nodeEffects: Effects<
  | "NodeStageVolume"
  | "NodeUnstageVolume"
  | "NodePublishVolume"
  | "NodeUnpublishVolume"
  | "NodeGetVolumeStats"
  | "NodeGetVolumeHealth"
  | "NodeGetStorageHealth"
  | "NodeExpandVolume"
  | "NodeGetInfo"
> = {
  NodeStageVolume: (request, { state, node }) => {
    putUse(
      state.stages,
      {
        volume: request.volumeId,
        node,
        path: request.stagingTargetPath,
        capability: request.volumeCapability as VolumeCapability,
        argumentsHash: stageArguments(request),
      },
      (other) => other.node === node,
    );
    return {};
  },

  NodeUnstageVolume: ({ volumeId }, { state, node }) => {
    dropUses(state.stages, volumeId, (use) => use.node === node);
    return {};
  },

  NodePublishVolume: (request, { state, node }) => {
    putUse(
      state.publications,
      {
        volume: request.volumeId,
        node,
        target: request.targetPath,
        capability: request.volumeCapability as VolumeCapability,
        readonly: request.readonly,
        argumentsHash: nodePublishArguments(request),
      },
      (other) => other.node === node && other.target === request.targetPath,
    );
    return {};
  },

  NodeUnpublishVolume: ({ volumeId, targetPath }, { state, node }) => {
    dropUses(state.publications, volumeId, (use) => use.node === node && use.target === targetPath);
    return {};
  },

  NodeGetVolumeStats: ({ volumeId }, { state, capabilities }) => {
    const volume = state.volumes.get(volumeId);
    const total = volume?.capacity ?? 0n;
    const condition = volume?.condition ?? { abnormal: false, message: "" };
    return {
      usage: [
        { unit: Unit.BYTES, total, used: total / 4n, available: total - total / 4n },
        { unit: Unit.INODES, total: 1024n, used: 16n, available: 1008n },
      ],
      volumeCondition: capabilities.has("node.VOLUME_CONDITION") ? { ...condition } : undefined,
    };
  },

  NodeGetVolumeHealth: ({ volumeId }, { state, node }) => ({
    volumeHealth: { volumeId, healthStatuses: [...(state.volumes.get(volumeId)?.nodeHealth?.[node] ?? [])] },
  }),

  NodeGetStorageHealth: (_, { state, node }) => ({ backendHealth: [...(state.nodes.get(node)?.storageHealth ?? [])] }),

  NodeExpandVolume: ({ volumeId, capacityRange }, { state }) => ({
    capacityBytes: state.volumes.get(volumeId)?.capacity ?? capacityRange?.requiredBytes ?? 0n,
  }),

  NodeGetInfo: (_, { state, node, capabilities }) => {
    const known = state.nodes.get(node);
    const topology = capabilities.has("plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS") ? known?.topology : undefined;
    return {
      nodeId: node,
      maxVolumesPerNode: BigInt(known?.maxVolumes ?? 0),
      accessibleTopology: topology === undefined ? undefined : { segments: { ...topology } },
    };
  },
};
