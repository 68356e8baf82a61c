/**
 * What a plugin may answer. A plugin is trusted for its own volumes, not with our records: a reply that lacks what it must
 * have, outgrows its limits or talks of something else than it was asked for is malformed, and proves nothing.
 * Where real plugins are lax and nothing depends on it, so is this table; the lines say where.
 */

import {
  anything,
  bytesOf,
  each,
  map,
  message,
  nodeId,
  nonEmpty,
  notNegative,
  optional,
  type Report,
  type Rule,
  required,
  text,
  token,
  type Violation,
  violationsOf,
} from "./field-rules.ts";
import {
  groupSnapshot,
  healthEntry,
  reportedCapability,
  reportedTopology,
  snapshot,
  volume,
  volumeHealth,
} from "./message-rules.ts";
import type { RequestOf, ResponseOf } from "./messages.ts";
import type { CsiMethod } from "./methods.ts";

/**
 * "63 characters or less, beginning and ending with an alphanumeric character ([a-z0-9A-Z]) with dashes (-), dots (.), and
 * alphanumerics between." The underscore is outside of that; csi-sanity lets it pass, so it exists, and it does no harm.
 */
const pluginName: Rule<string> = (value, field, report) => {
  if (bytesOf(value) > 63) report(field, `has ${bytesOf(value)} characters, at most 63 are allowed`);
  if (!/^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(value))
    report(field, "must be letters, digits, dots and dashes, with a letter or a digit at both ends");
};

const nothing = message<object>({});
/** Drivers announce values that we do not know, or UNKNOWN itself: whoever reads the list skips them. */
const announcements: Rule<{ capabilities: unknown[] }> = () => {};

const volumeStatus = message<{ publishedNodeIds: string[]; volumeCondition: unknown }>({
  // An empty id occurs, for "on no node"; texts of conditions are for people, and cut where they are shown.
  publishedNodeIds: each(nodeId),
  volumeCondition: anything,
});

const extent = message<{ byteOffset: bigint; sizeBytes: bigint }>({ byteOffset: notNegative, sizeBytes: notNegative });

const metadata = message<ResponseOf<"GetMetadataAllocated">>({
  blockMetadataType: anything,
  volumeCapacityBytes: notNegative,
  blockMetadata: each(extent),
});

const rules: { readonly [M in CsiMethod]: Rule<ResponseOf<M>> } = {
  // An absent `ready` means ready.
  Probe: message<ResponseOf<"Probe">>({ ready: anything }),
  GetPluginInfo: message<ResponseOf<"GetPluginInfo">>({
    name: nonEmpty(pluginName),
    // Required by the specification, empty in some builds; shown to people and compared with itself only.
    vendorVersion: text,
    manifest: map,
  }),
  GetPluginCapabilities: announcements,
  ControllerGetCapabilities: announcements,
  GroupControllerGetCapabilities: announcements,
  NodeGetCapabilities: announcements,
  NodeGetInfo: message<ResponseOf<"NodeGetInfo">>({
    nodeId: nonEmpty(nodeId),
    maxVolumesPerNode: notNegative,
    accessibleTopology: optional(reportedTopology),
  }),

  CreateVolume: message<ResponseOf<"CreateVolume">>({ volume: required(volume) }),
  DeleteVolume: nothing,
  ControllerPublishVolume: message<ResponseOf<"ControllerPublishVolume">>({ publishContext: map }),
  ControllerUnpublishVolume: nothing,
  ValidateVolumeCapabilities: message<ResponseOf<"ValidateVolumeCapabilities">>({
    confirmed: optional(
      message<NonNullable<ResponseOf<"ValidateVolumeCapabilities">["confirmed"]>>({
        volumeContext: map,
        volumeCapabilities: each(reportedCapability),
        parameters: map,
        mutableParameters: map,
      }),
    ),
    message: anything,
  }),
  ListVolumes: message<ResponseOf<"ListVolumes">>({
    entries: each(
      message<ResponseOf<"ListVolumes">["entries"][number]>({
        volume: required(volume),
        status: optional(volumeStatus),
      }),
    ),
    nextToken: token,
  }),
  GetCapacity: message<ResponseOf<"GetCapacity">>({
    availableCapacity: notNegative,
    maximumVolumeSize: optional(notNegative),
    minimumVolumeSize: optional(notNegative),
  }),
  CreateSnapshot: message<ResponseOf<"CreateSnapshot">>({ snapshot: required(snapshot) }),
  DeleteSnapshot: nothing,
  ListSnapshots: message<ResponseOf<"ListSnapshots">>({
    entries: each(message<ResponseOf<"ListSnapshots">["entries"][number]>({ snapshot: required(snapshot) })),
    nextToken: token,
  }),
  GetSnapshot: message<ResponseOf<"GetSnapshot">>({ snapshot: required(snapshot) }),
  ControllerExpandVolume: message<ResponseOf<"ControllerExpandVolume">>({
    capacityBytes: notNegative,
    nodeExpansionRequired: anything,
  }),
  ControllerGetVolume: message<ResponseOf<"ControllerGetVolume">>({
    volume: required(volume),
    // Required by the specification; its absence says no more than an empty one.
    status: optional(volumeStatus),
  }),
  ControllerModifyVolume: nothing,
  ControllerListVolumeHealth: message<ResponseOf<"ControllerListVolumeHealth">>({
    entries: each(volumeHealth),
    nextToken: token,
  }),
  ControllerGetVolumeHealth: message<ResponseOf<"ControllerGetVolumeHealth">>({ volumeHealth: required(volumeHealth) }),

  CreateVolumeGroupSnapshot: message<ResponseOf<"CreateVolumeGroupSnapshot">>({
    groupSnapshot: required(groupSnapshot),
  }),
  DeleteVolumeGroupSnapshot: nothing,
  GetVolumeGroupSnapshot: message<ResponseOf<"GetVolumeGroupSnapshot">>({ groupSnapshot: required(groupSnapshot) }),

  GetMetadataAllocated: metadata,
  GetMetadataDelta: metadata,

  NodeStageVolume: nothing,
  NodeUnstageVolume: nothing,
  NodePublishVolume: nothing,
  NodeUnpublishVolume: nothing,
  // Figures for people; a negative one would be shown as it is. Some drivers report nothing at all.
  NodeGetVolumeStats: anything,
  NodeGetVolumeHealth: message<ResponseOf<"NodeGetVolumeHealth">>({ volumeHealth: required(volumeHealth) }),
  NodeGetStorageHealth: message<ResponseOf<"NodeGetStorageHealth">>({
    backendHealth: each(
      message<ResponseOf<"NodeGetStorageHealth">["backendHealth"][number]>({
        ...healthEntry,
        volumeCapability: optional(reportedCapability),
      }),
    ),
  }),
  NodeExpandVolume: message<ResponseOf<"NodeExpandVolume">>({ capacityBytes: notNegative }),
};

type Answers<M extends CsiMethod> = (request: RequestOf<M>, response: ResponseOf<M>, report: Report) => void;

const same = (asked: string, answered: string | undefined, field: string, report: Report): void => {
  if (answered !== undefined && answered !== asked) report(field, "is not the one that was asked for");
};

/** Replies that could be about something else: mixing up two volumes would be believed as proof. */
const answers: { readonly [M in CsiMethod]?: Answers<M> } = {
  ControllerGetVolume: (asked, { volume: got }, report) =>
    same(asked.volumeId, got?.volumeId, "volume.volume_id", report),
  ControllerGetVolumeHealth: (asked, { volumeHealth: got }, report) =>
    same(asked.volumeId, got?.volumeId, "volume_health.volume_id", report),
  NodeGetVolumeHealth: (asked, { volumeHealth: got }, report) =>
    same(asked.volumeId, got?.volumeId, "volume_health.volume_id", report),
  GetSnapshot: (asked, { snapshot: got }, report) =>
    same(asked.snapshotId, got?.snapshotId, "snapshot.snapshot_id", report),
  CreateSnapshot: (asked, { snapshot: got }, report) =>
    same(asked.sourceVolumeId, got?.sourceVolumeId, "snapshot.source_volume_id", report),
  GetVolumeGroupSnapshot: (asked, { groupSnapshot: got }, report) =>
    same(asked.groupSnapshotId, got?.groupSnapshotId, "group_snapshot.group_snapshot_id", report),
  // "If a volume was made from a source, the reply must say so": a plugin that ignored the source made an empty volume.
  CreateVolume: ({ volumeContentSource: asked }, { volume: got }, report) => {
    if (asked === undefined || got === undefined) return;
    const from = got.contentSource;
    if (from === undefined) report("volume.content_source", "is missing though the volume was to have a source");
    same(asked.snapshot?.snapshotId ?? "", from?.snapshot?.snapshotId ?? "", "volume.content_source.snapshot", report);
    same(asked.volume?.volumeId ?? "", from?.volume?.volumeId ?? "", "volume.content_source.volume", report);
  },
};

/** Everything that makes this reply malformed; empty for a good one. */
export function responseViolations<M extends CsiMethod>(
  method: M,
  request: RequestOf<M> | undefined,
  response: ResponseOf<M>,
): Violation[] {
  const violations = violationsOf<ResponseOf<M>>(rules[method], response);
  if (request !== undefined)
    answers[method]?.(request, response, (field, description) => violations.push({ field, description }));
  return violations;
}
