import type { Capability } from "./capabilities.ts";
import type { Method } from "./rpc.ts";

export type ServiceName = "identity" | "controller" | "group" | "metadata" | "node";

interface MethodFacts {
  readonly service: ServiceName;
  /** Any one of these admits the call; none means always admitted. */
  readonly needs: readonly Capability[];
  /** Changes the plugin's state, so a repeat of it must be harmless. */
  readonly mutates: boolean;
}

const row = (service: ServiceName, mutates: boolean, ...needs: Capability[]): MethodFacts => ({
  service,
  needs,
  mutates,
});

/** The capability that admits each RPC, as csi.proto says beside the capability. */
export const methodFacts: Record<Method, MethodFacts> = {
  GetPluginInfo: row("identity", false),
  GetPluginCapabilities: row("identity", false),
  Probe: row("identity", false),
  CreateVolume: row("controller", true, "controller.CREATE_DELETE_VOLUME"),
  DeleteVolume: row("controller", true, "controller.CREATE_DELETE_VOLUME"),
  ControllerPublishVolume: row("controller", true, "controller.PUBLISH_UNPUBLISH_VOLUME"),
  ControllerUnpublishVolume: row("controller", true, "controller.PUBLISH_UNPUBLISH_VOLUME"),
  ValidateVolumeCapabilities: row("controller", false, "plugin.CONTROLLER_SERVICE"),
  ListVolumes: row("controller", false, "controller.LIST_VOLUMES"),
  GetCapacity: row("controller", false, "controller.GET_CAPACITY"),
  ControllerGetCapabilities: row("controller", false, "plugin.CONTROLLER_SERVICE"),
  CreateSnapshot: row("controller", true, "controller.CREATE_DELETE_SNAPSHOT"),
  DeleteSnapshot: row("controller", true, "controller.CREATE_DELETE_SNAPSHOT"),
  ListSnapshots: row("controller", false, "controller.LIST_SNAPSHOTS"),
  GetSnapshot: row("controller", false, "controller.GET_SNAPSHOT"),
  ControllerExpandVolume: row("controller", true, "controller.EXPAND_VOLUME"),
  ControllerGetVolume: row("controller", false, "controller.GET_VOLUME"),
  ControllerModifyVolume: row("controller", true, "controller.MODIFY_VOLUME"),
  ControllerListVolumeHealth: row("controller", false, "controller.LIST_VOLUME_HEALTH"),
  ControllerGetVolumeHealth: row("controller", false, "controller.GET_VOLUME_HEALTH"),
  GroupControllerGetCapabilities: row("group", false, "plugin.GROUP_CONTROLLER_SERVICE"),
  CreateVolumeGroupSnapshot: row("group", true, "group.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"),
  DeleteVolumeGroupSnapshot: row("group", true, "group.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"),
  GetVolumeGroupSnapshot: row("group", false, "group.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"),
  GetMetadataAllocated: row("metadata", false, "plugin.SNAPSHOT_METADATA_SERVICE"),
  GetMetadataDelta: row("metadata", false, "plugin.SNAPSHOT_METADATA_SERVICE"),
  NodeStageVolume: row("node", true, "node.STAGE_UNSTAGE_VOLUME"),
  NodeUnstageVolume: row("node", true, "node.STAGE_UNSTAGE_VOLUME"),
  NodePublishVolume: row("node", true),
  NodeUnpublishVolume: row("node", true),
  NodeGetVolumeStats: row("node", false, "node.GET_VOLUME_STATS"),
  NodeGetVolumeHealth: row("node", false, "node.GET_VOLUME_HEALTH"),
  NodeGetStorageHealth: row("node", false, "node.GET_STORAGE_HEALTH"),
  NodeExpandVolume: row("node", true, "node.EXPAND_VOLUME"),
  NodeGetCapabilities: row("node", false),
  NodeGetInfo: row("node", false),
};

export const methodNames = Object.keys(methodFacts) as readonly Method[];
