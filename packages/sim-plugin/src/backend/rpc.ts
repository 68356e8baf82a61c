import type * as csi from "@holdfast/shared/gen/csi/v1/csi";

/** Every RPC of CSI 1.13 by name; names are unique over its five services. */
export interface Requests {
  GetPluginInfo: csi.GetPluginInfoRequest;
  GetPluginCapabilities: csi.GetPluginCapabilitiesRequest;
  Probe: csi.ProbeRequest;
  CreateVolume: csi.CreateVolumeRequest;
  DeleteVolume: csi.DeleteVolumeRequest;
  ControllerPublishVolume: csi.ControllerPublishVolumeRequest;
  ControllerUnpublishVolume: csi.ControllerUnpublishVolumeRequest;
  ValidateVolumeCapabilities: csi.ValidateVolumeCapabilitiesRequest;
  ListVolumes: csi.ListVolumesRequest;
  GetCapacity: csi.GetCapacityRequest;
  ControllerGetCapabilities: csi.ControllerGetCapabilitiesRequest;
  CreateSnapshot: csi.CreateSnapshotRequest;
  DeleteSnapshot: csi.DeleteSnapshotRequest;
  ListSnapshots: csi.ListSnapshotsRequest;
  GetSnapshot: csi.GetSnapshotRequest;
  ControllerExpandVolume: csi.ControllerExpandVolumeRequest;
  ControllerGetVolume: csi.ControllerGetVolumeRequest;
  ControllerModifyVolume: csi.ControllerModifyVolumeRequest;
  ControllerListVolumeHealth: csi.ControllerListVolumeHealthRequest;
  ControllerGetVolumeHealth: csi.ControllerGetVolumeHealthRequest;
  GroupControllerGetCapabilities: csi.GroupControllerGetCapabilitiesRequest;
  CreateVolumeGroupSnapshot: csi.CreateVolumeGroupSnapshotRequest;
  DeleteVolumeGroupSnapshot: csi.DeleteVolumeGroupSnapshotRequest;
  GetVolumeGroupSnapshot: csi.GetVolumeGroupSnapshotRequest;
  GetMetadataAllocated: csi.GetMetadataAllocatedRequest;
  GetMetadataDelta: csi.GetMetadataDeltaRequest;
  NodeStageVolume: csi.NodeStageVolumeRequest;
  NodeUnstageVolume: csi.NodeUnstageVolumeRequest;
  NodePublishVolume: csi.NodePublishVolumeRequest;
  NodeUnpublishVolume: csi.NodeUnpublishVolumeRequest;
  NodeGetVolumeStats: csi.NodeGetVolumeStatsRequest;
  NodeGetVolumeHealth: csi.NodeGetVolumeHealthRequest;
  NodeGetStorageHealth: csi.NodeGetStorageHealthRequest;
  NodeExpandVolume: csi.NodeExpandVolumeRequest;
  NodeGetCapabilities: csi.NodeGetCapabilitiesRequest;
  NodeGetInfo: csi.NodeGetInfoRequest;
}

/** A stream's response is the whole list of its messages; the role process sends them one by one. */
export interface Responses {
  GetPluginInfo: csi.GetPluginInfoResponse;
  GetPluginCapabilities: csi.GetPluginCapabilitiesResponse;
  Probe: csi.ProbeResponse;
  CreateVolume: csi.CreateVolumeResponse;
  DeleteVolume: csi.DeleteVolumeResponse;
  ControllerPublishVolume: csi.ControllerPublishVolumeResponse;
  ControllerUnpublishVolume: csi.ControllerUnpublishVolumeResponse;
  ValidateVolumeCapabilities: csi.ValidateVolumeCapabilitiesResponse;
  ListVolumes: csi.ListVolumesResponse;
  GetCapacity: csi.GetCapacityResponse;
  ControllerGetCapabilities: csi.ControllerGetCapabilitiesResponse;
  CreateSnapshot: csi.CreateSnapshotResponse;
  DeleteSnapshot: csi.DeleteSnapshotResponse;
  ListSnapshots: csi.ListSnapshotsResponse;
  GetSnapshot: csi.GetSnapshotResponse;
  ControllerExpandVolume: csi.ControllerExpandVolumeResponse;
  ControllerGetVolume: csi.ControllerGetVolumeResponse;
  ControllerModifyVolume: csi.ControllerModifyVolumeResponse;
  ControllerListVolumeHealth: csi.ControllerListVolumeHealthResponse;
  ControllerGetVolumeHealth: csi.ControllerGetVolumeHealthResponse;
  GroupControllerGetCapabilities: csi.GroupControllerGetCapabilitiesResponse;
  CreateVolumeGroupSnapshot: csi.CreateVolumeGroupSnapshotResponse;
  DeleteVolumeGroupSnapshot: csi.DeleteVolumeGroupSnapshotResponse;
  GetVolumeGroupSnapshot: csi.GetVolumeGroupSnapshotResponse;
  GetMetadataAllocated: readonly csi.GetMetadataAllocatedResponse[];
  GetMetadataDelta: readonly csi.GetMetadataDeltaResponse[];
  NodeStageVolume: csi.NodeStageVolumeResponse;
  NodeUnstageVolume: csi.NodeUnstageVolumeResponse;
  NodePublishVolume: csi.NodePublishVolumeResponse;
  NodeUnpublishVolume: csi.NodeUnpublishVolumeResponse;
  NodeGetVolumeStats: csi.NodeGetVolumeStatsResponse;
  NodeGetVolumeHealth: csi.NodeGetVolumeHealthResponse;
  NodeGetStorageHealth: csi.NodeGetStorageHealthResponse;
  NodeExpandVolume: csi.NodeExpandVolumeResponse;
  NodeGetCapabilities: csi.NodeGetCapabilitiesResponse;
  NodeGetInfo: csi.NodeGetInfoResponse;
}

export type Method = keyof Requests;
