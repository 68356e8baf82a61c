import type { Keys } from "./pending.ts";
import { plainPath } from "./plain-path.ts";
import type { Method, Requests } from "./requests.ts";

const volume = (id: string): string => `volume ${id}`;
const volumeName = (name: string): string => `the volume name ${name}`;
const snapshot = (id: string): string => `snapshot ${id}`;
const snapshotName = (name: string): string => `the snapshot name ${name}`;
const group = (id: string): string => `group ${id}`;
const groupName = (name: string): string => `the group name ${name}`;
const place = (path: string): string => plainPath(path);

const none: Keys = { exclusive: [], shared: [] };
const only = (...exclusive: readonly string[]): Keys => ({ exclusive, shared: [] });

/**
 * What each call must be alone with. Reads take nothing: they answer what is stored at that moment.
 * A source volume is taken whole, as its filesystem is frozen while it is copied; a snapshot never changes, so that many volumes may be
 * made from it at once, and only its deletion waits. Paths are keys too: two volumes must not be mounted at one of them.
 */
export const pendingKeys: { readonly [M in Method]: (request: Requests[M]) => Keys } = {
  GetPluginInfo: () => none,
  GetPluginCapabilities: () => none,
  Probe: () => none,

  CreateVolume: ({ name, volumeContentSource }) => ({
    exclusive: [
      volumeName(name),
      ...(volumeContentSource?.volume === undefined ? [] : [volume(volumeContentSource.volume.volumeId)]),
    ],
    shared: volumeContentSource?.snapshot === undefined ? [] : [snapshot(volumeContentSource.snapshot.snapshotId)],
  }),
  DeleteVolume: ({ volumeId }) => only(volume(volumeId)),
  ControllerPublishVolume: ({ volumeId }) => only(volume(volumeId)),
  ControllerUnpublishVolume: ({ volumeId }) => only(volume(volumeId)),
  ControllerExpandVolume: ({ volumeId }) => only(volume(volumeId)),
  ControllerModifyVolume: ({ volumeId }) => only(volume(volumeId)),
  ValidateVolumeCapabilities: () => none,
  ListVolumes: () => none,
  GetCapacity: () => none,
  ControllerGetCapabilities: () => none,
  ControllerGetVolume: () => none,
  ControllerListVolumeHealth: () => none,
  ControllerGetVolumeHealth: () => none,
  CreateSnapshot: ({ name, sourceVolumeId }) => only(snapshotName(name), volume(sourceVolumeId)),
  DeleteSnapshot: ({ snapshotId }) => only(snapshot(snapshotId)),
  ListSnapshots: () => none,
  GetSnapshot: () => none,

  GroupControllerGetCapabilities: () => none,
  CreateVolumeGroupSnapshot: ({ name, sourceVolumeIds }) => only(groupName(name), ...sourceVolumeIds.map(volume)),
  DeleteVolumeGroupSnapshot: ({ groupSnapshotId, snapshotIds }) =>
    only(group(groupSnapshotId), ...snapshotIds.map(snapshot)),
  GetVolumeGroupSnapshot: () => none,

  // A snapshot that is deleted under a stream ends it with an error; a slow reader must not hold up the deletion.
  GetMetadataAllocated: () => none,
  GetMetadataDelta: () => none,

  NodeStageVolume: ({ volumeId, stagingTargetPath }) => only(volume(volumeId), place(stagingTargetPath)),
  NodeUnstageVolume: ({ volumeId, stagingTargetPath }) => only(volume(volumeId), place(stagingTargetPath)),
  NodePublishVolume: ({ volumeId, targetPath }) => only(volume(volumeId), place(targetPath)),
  NodeUnpublishVolume: ({ volumeId, targetPath }) => only(volume(volumeId), place(targetPath)),
  NodeExpandVolume: ({ volumeId }) => only(volume(volumeId)),
  NodeGetVolumeStats: () => none,
  NodeGetVolumeHealth: () => none,
  NodeGetStorageHealth: () => none,
  NodeGetCapabilities: () => none,
  NodeGetInfo: () => none,
};
