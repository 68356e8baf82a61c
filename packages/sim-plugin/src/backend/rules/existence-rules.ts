import type { Rule, World } from "./rule.ts";
import { nobodysFault, rule } from "./rule.ts";

/** A plugin without a controller service makes no volumes: whatever id comes is one it serves. */
const missingVolume = (world: World, id: string): string | undefined =>
  world.state.volumes.has(id) || !world.has("plugin.CONTROLLER_SERVICE") ? undefined : `there is no volume ${id}`;

const missingSnapshot = (world: World, id: string): string | undefined =>
  world.state.snapshots.has(id) ? undefined : `there is no snapshot ${id}`;

const byVolumeId = (request: { readonly volumeId: string }, world: World) => missingVolume(world, request.volumeId);

/** What is not there is not there: it may have been removed behind the orchestrator's back. */
export const existenceRules: readonly Rule[] = [
  nobodysFault(
    rule(
      "volume-not-found",
      "NOT_FOUND",
      "A volume_id that names nothing is NOT_FOUND, but to Delete and ControllerUnpublish, which are then done.",
      {
        ControllerPublishVolume: byVolumeId,
        ValidateVolumeCapabilities: byVolumeId,
        ControllerGetVolume: byVolumeId,
        ControllerGetVolumeHealth: byVolumeId,
        ControllerExpandVolume: byVolumeId,
        ControllerModifyVolume: byVolumeId,
        CreateSnapshot: (request, world) => missingVolume(world, request.sourceVolumeId),
        CreateVolumeGroupSnapshot: (request, world) =>
          request.sourceVolumeIds.map((id) => missingVolume(world, id)).find((message) => message !== undefined),
        NodeStageVolume: byVolumeId,
        NodeUnstageVolume: byVolumeId,
        NodePublishVolume: byVolumeId,
        NodeUnpublishVolume: byVolumeId,
        NodeGetVolumeStats: byVolumeId,
        NodeGetVolumeHealth: byVolumeId,
        NodeExpandVolume: byVolumeId,
      },
    ),
  ),
  nobodysFault(
    rule("content-source-not-found", "NOT_FOUND", "A content source that is gone is NOT_FOUND.", {
      CreateVolume: ({ volumeContentSource: source }, world) => {
        if (source?.snapshot !== undefined) return missingSnapshot(world, source.snapshot.snapshotId);
        return source?.volume === undefined ? undefined : missingVolume(world, source.volume.volumeId);
      },
    }),
  ),
  nobodysFault(
    rule("snapshot-not-found", "NOT_FOUND", "A snapshot_id that names nothing is NOT_FOUND, but to DeleteSnapshot.", {
      GetSnapshot: (request, world) => missingSnapshot(world, request.snapshotId),
      GetMetadataAllocated: (request, world) => missingSnapshot(world, request.snapshotId),
      GetMetadataDelta: (request, world) =>
        missingSnapshot(world, request.baseSnapshotId) ?? missingSnapshot(world, request.targetSnapshotId),
    }),
  ),
  nobodysFault(
    rule("group-not-found", "NOT_FOUND", "A group_snapshot_id that names nothing is NOT_FOUND, but to its delete.", {
      GetVolumeGroupSnapshot: ({ groupSnapshotId: id }, world) =>
        world.state.groups.has(id) ? undefined : `there is no group snapshot ${id}`,
    }),
  ),
  rule("node-unknown", "NOT_FOUND", "node_id is what NodeGetInfo answered on that node.", {
    ControllerPublishVolume: ({ nodeId }, world) =>
      world.state.nodes.size === 0 || world.state.nodes.has(nodeId)
        ? undefined
        : `no NodeGetInfo ever answered the node id ${nodeId}`,
  }),
];
