import {
  ControllerDefinition,
  type ControllerServiceImplementation,
  GroupControllerDefinition,
  type GroupControllerServiceImplementation,
  IdentityDefinition,
  type IdentityServiceImplementation,
  NodeDefinition,
  type NodeServiceImplementation,
  SnapshotMetadataDefinition,
  type SnapshotMetadataServiceImplementation,
} from "@holdfast/shared/gen/csi/v1/csi";
import type { Server } from "nice-grpc";
import type { Role } from "../backend/call.ts";
import type { Perform } from "./perform.ts";

const identity = (perform: Perform): IdentityServiceImplementation => ({
  getPluginInfo: (request, context) => perform("GetPluginInfo", request, context),
  getPluginCapabilities: (request, context) => perform("GetPluginCapabilities", request, context),
  probe: (request, context) => perform("Probe", request, context),
});

const controller = (perform: Perform): ControllerServiceImplementation => ({
  createVolume: (request, context) => perform("CreateVolume", request, context),
  deleteVolume: (request, context) => perform("DeleteVolume", request, context),
  controllerPublishVolume: (request, context) => perform("ControllerPublishVolume", request, context),
  controllerUnpublishVolume: (request, context) => perform("ControllerUnpublishVolume", request, context),
  validateVolumeCapabilities: (request, context) => perform("ValidateVolumeCapabilities", request, context),
  listVolumes: (request, context) => perform("ListVolumes", request, context),
  getCapacity: (request, context) => perform("GetCapacity", request, context),
  controllerGetCapabilities: (request, context) => perform("ControllerGetCapabilities", request, context),
  createSnapshot: (request, context) => perform("CreateSnapshot", request, context),
  deleteSnapshot: (request, context) => perform("DeleteSnapshot", request, context),
  listSnapshots: (request, context) => perform("ListSnapshots", request, context),
  getSnapshot: (request, context) => perform("GetSnapshot", request, context),
  controllerExpandVolume: (request, context) => perform("ControllerExpandVolume", request, context),
  controllerGetVolume: (request, context) => perform("ControllerGetVolume", request, context),
  controllerModifyVolume: (request, context) => perform("ControllerModifyVolume", request, context),
  controllerListVolumeHealth: (request, context) => perform("ControllerListVolumeHealth", request, context),
  controllerGetVolumeHealth: (request, context) => perform("ControllerGetVolumeHealth", request, context),
});

const groupController = (perform: Perform): GroupControllerServiceImplementation => ({
  groupControllerGetCapabilities: (request, context) => perform("GroupControllerGetCapabilities", request, context),
  createVolumeGroupSnapshot: (request, context) => perform("CreateVolumeGroupSnapshot", request, context),
  deleteVolumeGroupSnapshot: (request, context) => perform("DeleteVolumeGroupSnapshot", request, context),
  getVolumeGroupSnapshot: (request, context) => perform("GetVolumeGroupSnapshot", request, context),
});

const snapshotMetadata = (perform: Perform): SnapshotMetadataServiceImplementation => ({
  async *getMetadataAllocated(request, context) {
    yield* await perform("GetMetadataAllocated", request, context);
  },
  async *getMetadataDelta(request, context) {
    yield* await perform("GetMetadataDelta", request, context);
  },
});

const node = (perform: Perform): NodeServiceImplementation => ({
  nodeStageVolume: (request, context) => perform("NodeStageVolume", request, context),
  nodeUnstageVolume: (request, context) => perform("NodeUnstageVolume", request, context),
  nodePublishVolume: (request, context) => perform("NodePublishVolume", request, context),
  nodeUnpublishVolume: (request, context) => perform("NodeUnpublishVolume", request, context),
  nodeGetVolumeStats: (request, context) => perform("NodeGetVolumeStats", request, context),
  nodeGetVolumeHealth: (request, context) => perform("NodeGetVolumeHealth", request, context),
  nodeGetStorageHealth: (request, context) => perform("NodeGetStorageHealth", request, context),
  nodeExpandVolume: (request, context) => perform("NodeExpandVolume", request, context),
  nodeGetCapabilities: (request, context) => perform("NodeGetCapabilities", request, context),
  nodeGetInfo: (request, context) => perform("NodeGetInfo", request, context),
});

/** A service of another role is not there at all, as in a real plugin's split deployment. */
export const addServices = (server: Server, role: Role, perform: Perform): void => {
  server.add(IdentityDefinition, identity(perform));
  if (role !== "node") {
    server.add(ControllerDefinition, controller(perform));
    server.add(GroupControllerDefinition, groupController(perform));
    server.add(SnapshotMetadataDefinition, snapshotMetadata(perform));
  }
  if (role !== "controller") server.add(NodeDefinition, node(perform));
};
