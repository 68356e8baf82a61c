/** From what the operations answer to CSI's messages. */
import {
  type BlockMetadata,
  type NodeGetVolumeStatsResponse,
  type Snapshot,
  type Topology,
  VolumeUsage_Unit as Unit,
  type Volume,
  type VolumeContentSource,
  type VolumeGroupSnapshot,
  type VolumeUsage,
} from "@holdfast/shared/gen/csi/v1/csi";
import { ownSegments } from "../domain/is-here.ts";
import type { ContentSource, GroupRecord, SnapshotRecord, VolumeRecord } from "../domain/records.ts";
import type { Block, Condition, DriverSettings, VolumeStats } from "../operations.ts";

type Place = Pick<DriverSettings, "topologyKey" | "nodeId">;

/** Where every volume of this driver is, and its node. */
export const topologyOf = (place: Place): Topology => ({ segments: ownSegments(place) });

const fromSource = (source: ContentSource): VolumeContentSource =>
  source.kind === "snapshot" ? { snapshot: { snapshotId: source.id } } : { volume: { volumeId: source.id } };

/** Without a context on purpose: what a volume is stands in its record, and nothing that a caller sends back could contradict it. */
export const fromVolume = (volume: VolumeRecord, place: Place): Volume => ({
  volumeId: volume.id,
  capacityBytes: volume.capacityBytes,
  volumeContext: {},
  contentSource: volume.source === undefined ? undefined : fromSource(volume.source),
  accessibleTopology: [topologyOf(place)],
});

export const fromVolumeStatus = (
  { volume, condition }: { readonly volume: VolumeRecord; readonly condition: Condition },
  { attach }: Pick<DriverSettings, "attach">,
) => ({
  publishedNodeIds: attach ? volume.attachments.map(({ nodeId }) => nodeId) : [],
  volumeCondition: { ...condition },
});

export const fromSnapshot = (snapshot: SnapshotRecord): Snapshot => ({
  snapshotId: snapshot.id,
  sourceVolumeId: snapshot.volumeId,
  sizeBytes: snapshot.sizeBytes,
  creationTime: new Date(snapshot.createdAt),
  readyToUse: true,
  groupSnapshotId: snapshot.groupId ?? "",
  accessibleTopology: [],
});

export const fromGroup = (group: GroupRecord, snapshots: readonly SnapshotRecord[]): VolumeGroupSnapshot => ({
  groupSnapshotId: group.id,
  snapshots: snapshots.map(fromSnapshot),
  creationTime: new Date(group.createdAt),
  readyToUse: true,
});

export const fromBlocks = (blocks: readonly Block[]): BlockMetadata[] =>
  blocks.map(({ offset, size }) => ({ byteOffset: offset, sizeBytes: size }));

export const fromStats = ({ totalBytes, usage, condition }: VolumeStats): NodeGetVolumeStatsResponse => {
  const rows: VolumeUsage[] =
    usage === undefined
      ? [{ unit: Unit.BYTES, total: totalBytes, used: 0n, available: 0n }]
      : [
          { unit: Unit.BYTES, ...usage.bytes },
          { unit: Unit.INODES, ...usage.inodes },
        ];
  return { usage: rows, volumeCondition: { ...condition } };
};
