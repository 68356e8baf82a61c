/** The 36 RPCs of CSI 1.13 and what the orchestrator has to know of each before it may call it. */

import type { CallKind } from "./call-kind.ts";
import type { Capability } from "./capabilities.ts";

/** Names are unique over all of CSI, so the bare name identifies the RPC. */
export const methodNames = [
  "Probe",
  "GetPluginInfo",
  "GetPluginCapabilities",
  "CreateVolume",
  "DeleteVolume",
  "ControllerPublishVolume",
  "ControllerUnpublishVolume",
  "ValidateVolumeCapabilities",
  "ListVolumes",
  "GetCapacity",
  "ControllerGetCapabilities",
  "CreateSnapshot",
  "DeleteSnapshot",
  "ListSnapshots",
  "GetSnapshot",
  "ControllerExpandVolume",
  "ControllerGetVolume",
  "ControllerModifyVolume",
  "ControllerListVolumeHealth",
  "ControllerGetVolumeHealth",
  "GroupControllerGetCapabilities",
  "CreateVolumeGroupSnapshot",
  "DeleteVolumeGroupSnapshot",
  "GetVolumeGroupSnapshot",
  "GetMetadataAllocated",
  "GetMetadataDelta",
  "NodeStageVolume",
  "NodeUnstageVolume",
  "NodePublishVolume",
  "NodeUnpublishVolume",
  "NodeGetVolumeStats",
  "NodeGetVolumeHealth",
  "NodeGetStorageHealth",
  "NodeExpandVolume",
  "NodeGetCapabilities",
  "NodeGetInfo",
] as const;

export type CsiMethod = (typeof methodNames)[number];
export type StreamMethod = "GetMetadataAllocated" | "GetMetadataDelta";
export type UnaryMethod = Exclude<CsiMethod, StreamMethod>;

export type CsiService = "Identity" | "Controller" | "GroupController" | "SnapshotMetadata" | "Node";

export interface MethodSpec {
  readonly service: CsiService;
  readonly kind: "probe" | "read" | "publish-like" | "unpublish-like" | "stream";
  /** The row of the outcome table. */
  readonly callKind: CallKind;
  readonly mutating: boolean;
  /** At most one call in flight per such key, held across timeouts: "one call in flight per volume" (CSI, Concurrency). */
  readonly exclusive: "volume" | "volume-node" | "snapshot" | "none";
  /** The plugin must announce it, else the call is never sent. */
  readonly needs: Capability | "none";
  /** The negation that undoes an unknown result of this call. */
  readonly inverse: CsiMethod | "none";
}

const spec = (
  service: CsiService,
  kind: MethodSpec["kind"],
  callKind: CallKind,
  exclusive: MethodSpec["exclusive"],
  needs: MethodSpec["needs"],
  inverse: MethodSpec["inverse"] = "none",
): MethodSpec => ({
  service,
  kind,
  callKind,
  mutating: kind === "publish-like" || kind === "unpublish-like",
  exclusive,
  needs,
  inverse,
});

const make = "publish-like";
const undo = "unpublish-like";

export const methods: Readonly<Record<CsiMethod, MethodSpec>> = {
  Probe: spec("Identity", "probe", "read", "none", "none"),
  GetPluginInfo: spec("Identity", "probe", "read", "none", "none"),
  GetPluginCapabilities: spec("Identity", "probe", "read", "none", "none"),

  CreateVolume: spec("Controller", make, "create", "volume", "controller:CREATE_DELETE_VOLUME", "DeleteVolume"),
  DeleteVolume: spec("Controller", undo, "delete", "volume", "controller:CREATE_DELETE_VOLUME"),
  ControllerPublishVolume: spec(
    "Controller",
    make,
    "controllerPublish",
    "volume",
    "controller:PUBLISH_UNPUBLISH_VOLUME",
    "ControllerUnpublishVolume",
  ),
  ControllerUnpublishVolume: spec(
    "Controller",
    undo,
    "controllerUnpublish",
    "volume",
    "controller:PUBLISH_UNPUBLISH_VOLUME",
  ),
  // Required of every plugin that has a controller service, so there is no capability of its own.
  ValidateVolumeCapabilities: spec("Controller", "read", "read", "none", "plugin:CONTROLLER_SERVICE"),
  ListVolumes: spec("Controller", "read", "read", "none", "controller:LIST_VOLUMES"),
  GetCapacity: spec("Controller", "read", "read", "none", "controller:GET_CAPACITY"),
  ControllerGetCapabilities: spec("Controller", "probe", "read", "none", "plugin:CONTROLLER_SERVICE"),
  CreateSnapshot: spec(
    "Controller",
    make,
    "snapshotCreate",
    "snapshot",
    "controller:CREATE_DELETE_SNAPSHOT",
    "DeleteSnapshot",
  ),
  DeleteSnapshot: spec("Controller", undo, "snapshotDelete", "snapshot", "controller:CREATE_DELETE_SNAPSHOT"),
  ListSnapshots: spec("Controller", "read", "read", "none", "controller:LIST_SNAPSHOTS"),
  GetSnapshot: spec("Controller", "read", "read", "none", "controller:GET_SNAPSHOT"),
  ControllerExpandVolume: spec("Controller", make, "expand", "volume", "controller:EXPAND_VOLUME"),
  ControllerGetVolume: spec("Controller", "read", "read", "none", "controller:GET_VOLUME"),
  ControllerModifyVolume: spec("Controller", make, "modify", "volume", "controller:MODIFY_VOLUME"),
  ControllerListVolumeHealth: spec("Controller", "read", "read", "none", "controller:LIST_VOLUME_HEALTH"),
  ControllerGetVolumeHealth: spec("Controller", "read", "read", "none", "controller:GET_VOLUME_HEALTH"),

  GroupControllerGetCapabilities: spec("GroupController", "probe", "read", "none", "plugin:GROUP_CONTROLLER_SERVICE"),
  CreateVolumeGroupSnapshot: spec(
    "GroupController",
    make,
    "snapshotCreate",
    "snapshot",
    "group:CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
    "DeleteVolumeGroupSnapshot",
  ),
  DeleteVolumeGroupSnapshot: spec(
    "GroupController",
    undo,
    "snapshotDelete",
    "snapshot",
    "group:CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
  ),
  GetVolumeGroupSnapshot: spec(
    "GroupController",
    "read",
    "read",
    "none",
    "group:CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
  ),

  GetMetadataAllocated: spec("SnapshotMetadata", "stream", "read", "none", "plugin:SNAPSHOT_METADATA_SERVICE"),
  GetMetadataDelta: spec("SnapshotMetadata", "stream", "read", "none", "plugin:SNAPSHOT_METADATA_SERVICE"),

  NodeStageVolume: spec("Node", make, "stage", "volume-node", "node:STAGE_UNSTAGE_VOLUME", "NodeUnstageVolume"),
  NodeUnstageVolume: spec("Node", undo, "unstage", "volume-node", "node:STAGE_UNSTAGE_VOLUME"),
  // The two calls that every node plugin has: no capability announces them.
  NodePublishVolume: spec("Node", make, "publish", "volume-node", "none", "NodeUnpublishVolume"),
  NodeUnpublishVolume: spec("Node", undo, "unpublish", "volume-node", "none"),
  NodeGetVolumeStats: spec("Node", "read", "read", "none", "node:GET_VOLUME_STATS"),
  NodeGetVolumeHealth: spec("Node", "read", "read", "none", "node:GET_VOLUME_HEALTH"),
  NodeGetStorageHealth: spec("Node", "read", "read", "none", "node:GET_STORAGE_HEALTH"),
  NodeExpandVolume: spec("Node", make, "expand", "volume-node", "node:EXPAND_VOLUME"),
  NodeGetCapabilities: spec("Node", "probe", "read", "none", "none"),
  NodeGetInfo: spec("Node", "probe", "read", "none", "none"),
};

/** "/csi.v1.Node/NodeStageVolume": the path on the wire. */
export function pathOf(method: CsiMethod): string {
  return `/csi.v1.${methods[method].service}/${method}`;
}

/** The method of a wire path, or undefined when CSI has no such method. */
export function methodOf(path: string): CsiMethod | undefined {
  return methodNames.find((name) => pathOf(name) === path);
}
