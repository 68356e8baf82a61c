import type {
  ControllerExpandVolumeRequest,
  ControllerGetCapabilitiesRequest,
  ControllerGetVolumeHealthRequest,
  ControllerGetVolumeRequest,
  ControllerListVolumeHealthRequest,
  ControllerModifyVolumeRequest,
  ControllerPublishVolumeRequest,
  ControllerUnpublishVolumeRequest,
  CreateSnapshotRequest,
  CreateVolumeGroupSnapshotRequest,
  CreateVolumeRequest,
  DeleteSnapshotRequest,
  DeleteVolumeGroupSnapshotRequest,
  DeleteVolumeRequest,
  GetCapacityRequest,
  GetMetadataAllocatedRequest,
  GetMetadataDeltaRequest,
  GetPluginCapabilitiesRequest,
  GetPluginInfoRequest,
  GetSnapshotRequest,
  GetVolumeGroupSnapshotRequest,
  GroupControllerGetCapabilitiesRequest,
  ListSnapshotsRequest,
  ListVolumesRequest,
  NodeExpandVolumeRequest,
  NodeGetCapabilitiesRequest,
  NodeGetInfoRequest,
  NodeGetStorageHealthRequest,
  NodeGetVolumeHealthRequest,
  NodeGetVolumeStatsRequest,
  NodePublishVolumeRequest,
  NodeStageVolumeRequest,
  NodeUnpublishVolumeRequest,
  NodeUnstageVolumeRequest,
  ProbeRequest,
  ValidateVolumeCapabilitiesRequest,
} from "@holdfast/shared/gen/csi/v1/csi";

/** Every call of CSI 1.13. What is a row for each of them is a Record over this: a call left out does not compile. */
export interface Requests {
  GetPluginInfo: GetPluginInfoRequest;
  GetPluginCapabilities: GetPluginCapabilitiesRequest;
  Probe: ProbeRequest;
  CreateVolume: CreateVolumeRequest;
  DeleteVolume: DeleteVolumeRequest;
  ControllerPublishVolume: ControllerPublishVolumeRequest;
  ControllerUnpublishVolume: ControllerUnpublishVolumeRequest;
  ValidateVolumeCapabilities: ValidateVolumeCapabilitiesRequest;
  ListVolumes: ListVolumesRequest;
  GetCapacity: GetCapacityRequest;
  ControllerGetCapabilities: ControllerGetCapabilitiesRequest;
  CreateSnapshot: CreateSnapshotRequest;
  DeleteSnapshot: DeleteSnapshotRequest;
  ListSnapshots: ListSnapshotsRequest;
  GetSnapshot: GetSnapshotRequest;
  ControllerExpandVolume: ControllerExpandVolumeRequest;
  ControllerGetVolume: ControllerGetVolumeRequest;
  ControllerModifyVolume: ControllerModifyVolumeRequest;
  ControllerListVolumeHealth: ControllerListVolumeHealthRequest;
  ControllerGetVolumeHealth: ControllerGetVolumeHealthRequest;
  GroupControllerGetCapabilities: GroupControllerGetCapabilitiesRequest;
  CreateVolumeGroupSnapshot: CreateVolumeGroupSnapshotRequest;
  DeleteVolumeGroupSnapshot: DeleteVolumeGroupSnapshotRequest;
  GetVolumeGroupSnapshot: GetVolumeGroupSnapshotRequest;
  GetMetadataAllocated: GetMetadataAllocatedRequest;
  GetMetadataDelta: GetMetadataDeltaRequest;
  NodeStageVolume: NodeStageVolumeRequest;
  NodeUnstageVolume: NodeUnstageVolumeRequest;
  NodePublishVolume: NodePublishVolumeRequest;
  NodeUnpublishVolume: NodeUnpublishVolumeRequest;
  NodeGetVolumeStats: NodeGetVolumeStatsRequest;
  NodeGetVolumeHealth: NodeGetVolumeHealthRequest;
  NodeGetStorageHealth: NodeGetStorageHealthRequest;
  NodeExpandVolume: NodeExpandVolumeRequest;
  NodeGetCapabilities: NodeGetCapabilitiesRequest;
  NodeGetInfo: NodeGetInfoRequest;
}

export type Method = keyof Requests;
