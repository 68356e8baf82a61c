import { type NodeDefinition, StorageHealthErrorType, VolumeHealthErrorType } from "@holdfast/shared/gen/csi/v1/csi";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { DriverError } from "../domain/driver-error.ts";
import type { DriverSettings, NodeOperations } from "../operations.ts";
import type { Admit } from "./admit.ts";
import { nodeCapabilities } from "./capabilities.ts";
import { fromStats, topologyOf } from "./convert-answer.ts";
import { toNodeExpand, toPublish, toStage } from "./convert-request.ts";
import { plainPath } from "./plain-path.ts";

export interface NodeParts {
  readonly settings: DriverSettings;
  readonly node: NodeOperations;
  readonly admit: Admit;
}

export const createNodeService = ({ settings, node, admit }: NodeParts): Implementation<typeof NodeDefinition> => ({
  nodeStageVolume: (request, context) =>
    admit("NodeStageVolume", request, context, async (signal) => {
      await node.stage(toStage(request), signal);
      return {};
    }),

  nodeUnstageVolume: (request, context) =>
    admit("NodeUnstageVolume", request, context, async (signal) => {
      const { volumeId, stagingTargetPath } = request;
      await node.unstage({ volumeId, stagingPath: plainPath(stagingTargetPath) }, signal);
      return {};
    }),

  nodePublishVolume: (request, context) =>
    admit("NodePublishVolume", request, context, async (signal) => {
      // "FAILED_PRECONDITION: ... the STAGE_UNSTAGE_VOLUME capability is set but no staging_target_path was set."
      if (request.stagingTargetPath === "")
        throw new DriverError(
          "FAILED_PRECONDITION",
          `volume ${request.volumeId} on node ${settings.nodeId}: NodePublishVolume has no staging_target_path; stage it and name the path`,
        );
      await node.publish(toPublish(request), signal);
      return {};
    }),

  nodeUnpublishVolume: (request, context) =>
    admit("NodeUnpublishVolume", request, context, async (signal) => {
      const { volumeId, targetPath } = request;
      await node.unpublish({ volumeId, targetPath: plainPath(targetPath) }, signal);
      return {};
    }),

  nodeGetVolumeStats: (request, context) =>
    admit("NodeGetVolumeStats", request, context, async (signal) => {
      const { volumeId, volumePath } = request;
      return fromStats(await node.stats({ volumeId, path: plainPath(volumePath) }, signal));
    }),

  nodeGetVolumeHealth: (request, context) =>
    admit("NodeGetVolumeHealth", request, context, async (signal) => {
      const { volumeId } = request;
      const entries = await node.volumeHealth({ volumeId }, signal);
      const healthStatuses = entries.map(({ status, ...said }) => ({ ...said, status: VolumeHealthErrorType[status] }));
      return { volumeHealth: { volumeId, healthStatuses } };
    }),

  nodeGetStorageHealth: (request, context) =>
    admit("NodeGetStorageHealth", request, context, async () => {
      const entries = await node.storageHealth();
      return {
        backendHealth: entries.map(({ status, ...said }) => ({ ...said, status: StorageHealthErrorType[status] })),
      };
    }),

  nodeExpandVolume: (request, context) =>
    admit("NodeExpandVolume", request, context, (signal) => node.expand(toNodeExpand(request), signal)),

  nodeGetCapabilities: async () => ({ capabilities: nodeCapabilities(settings) }),

  nodeGetInfo: async () => ({
    nodeId: settings.nodeId,
    maxVolumesPerNode: BigInt(settings.maxVolumesPerNode),
    accessibleTopology: topologyOf(settings),
  }),
});
