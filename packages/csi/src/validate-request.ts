/**
 * What may be sent to a plugin: required fields, sizes, characters, and the rules that CSI states in prose. A request that
 * breaks one never leaves the process; all that is wrong with it is said at once. Values are not repeated in what is said:
 * maps and flags may be sensitive.
 */
import { type FieldViolation, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import {
  all,
  anything,
  distinct,
  each,
  id,
  map,
  message,
  nodeId,
  nonEmpty,
  notNegative,
  optional,
  path,
  positive,
  type Rule,
  required,
  secrets,
  some,
  someEntries,
  token,
  violationsOf,
} from "./field-rules.ts";
import {
  capabilities,
  capability,
  capacityRange,
  contentSource,
  name,
  topology,
  topologyRequirement,
} from "./message-rules.ts";
import type { RequestOf } from "./messages.ts";
import { type CsiMethod, pathOf } from "./methods.ts";

const theId = nonEmpty(id);
const thePath = nonEmpty(path);
/** Empty, or a path: the staging path is sent only to plugins that stage. */
const maybePath: Rule<string> = (value, field, report) => {
  if (value !== "") path(value, field, report);
};
const ids = all<string[]>(some, distinct, each(theId));
const nothing = message<object>({});

const rules: { readonly [M in CsiMethod]: Rule<RequestOf<M>> } = {
  Probe: nothing,
  GetPluginInfo: nothing,
  GetPluginCapabilities: nothing,
  ControllerGetCapabilities: nothing,
  GroupControllerGetCapabilities: nothing,
  NodeGetCapabilities: nothing,
  NodeGetInfo: nothing,

  CreateVolume: message<RequestOf<"CreateVolume">>({
    name,
    capacityRange: optional(capacityRange),
    volumeCapabilities: capabilities,
    parameters: map,
    secrets,
    volumeContentSource: optional(contentSource),
    accessibilityRequirements: optional(topologyRequirement),
    mutableParameters: map,
  }),
  DeleteVolume: message<RequestOf<"DeleteVolume">>({ volumeId: theId, secrets }),
  ControllerPublishVolume: message<RequestOf<"ControllerPublishVolume">>({
    volumeId: theId,
    nodeId: nonEmpty(nodeId),
    volumeCapability: required(capability),
    readonly: anything,
    secrets,
    volumeContext: map,
  }),
  // CSI lets node_id be empty, and then it means every node: nothing here ever means that.
  ControllerUnpublishVolume: message<RequestOf<"ControllerUnpublishVolume">>({
    volumeId: theId,
    nodeId: nonEmpty(nodeId),
    secrets,
  }),
  ValidateVolumeCapabilities: message<RequestOf<"ValidateVolumeCapabilities">>({
    volumeId: theId,
    volumeContext: map,
    volumeCapabilities: capabilities,
    parameters: map,
    secrets,
    mutableParameters: map,
  }),
  // Never without max_entries: a plugin that knows a million volumes would not fit into one reply.
  ListVolumes: message<RequestOf<"ListVolumes">>({ maxEntries: positive, startingToken: token }),
  GetCapacity: message<RequestOf<"GetCapacity">>({
    volumeCapabilities: each(capability),
    parameters: map,
    accessibleTopology: optional(topology),
  }),
  CreateSnapshot: message<RequestOf<"CreateSnapshot">>({
    sourceVolumeId: theId,
    name,
    secrets,
    parameters: map,
    accessibilityRequirements: optional(topologyRequirement),
  }),
  DeleteSnapshot: message<RequestOf<"DeleteSnapshot">>({ snapshotId: theId, secrets }),
  ListSnapshots: message<RequestOf<"ListSnapshots">>({
    maxEntries: positive,
    startingToken: token,
    sourceVolumeId: id,
    snapshotId: id,
    secrets,
  }),
  GetSnapshot: message<RequestOf<"GetSnapshot">>({ snapshotId: theId, secrets }),
  ControllerExpandVolume: message<RequestOf<"ControllerExpandVolume">>({
    volumeId: theId,
    capacityRange: required(capacityRange),
    secrets,
    volumeCapability: optional(capability),
  }),
  ControllerGetVolume: message<RequestOf<"ControllerGetVolume">>({ volumeId: theId }),
  ControllerModifyVolume: message<RequestOf<"ControllerModifyVolume">>({
    volumeId: theId,
    secrets,
    mutableParameters: all(someEntries, map),
  }),
  // Never without max_entries, as ListVolumes.
  ControllerListVolumeHealth: message<RequestOf<"ControllerListVolumeHealth">>({
    maxEntries: positive,
    startingToken: token,
    secrets,
  }),
  ControllerGetVolumeHealth: message<RequestOf<"ControllerGetVolumeHealth">>({ volumeId: theId, secrets }),

  CreateVolumeGroupSnapshot: message<RequestOf<"CreateVolumeGroupSnapshot">>({
    name,
    sourceVolumeIds: ids,
    secrets,
    parameters: map,
  }),
  DeleteVolumeGroupSnapshot: message<RequestOf<"DeleteVolumeGroupSnapshot">>({
    groupSnapshotId: theId,
    snapshotIds: ids,
    secrets,
  }),
  GetVolumeGroupSnapshot: message<RequestOf<"GetVolumeGroupSnapshot">>({
    groupSnapshotId: theId,
    snapshotIds: ids,
    secrets,
  }),

  GetMetadataAllocated: message<RequestOf<"GetMetadataAllocated">>({
    snapshotId: theId,
    startingOffset: notNegative,
    maxResults: notNegative,
    secrets,
  }),
  GetMetadataDelta: message<RequestOf<"GetMetadataDelta">>({
    baseSnapshotId: theId,
    targetSnapshotId: theId,
    startingOffset: notNegative,
    maxResults: notNegative,
    secrets,
  }),

  NodeStageVolume: message<RequestOf<"NodeStageVolume">>({
    volumeId: theId,
    publishContext: map,
    stagingTargetPath: thePath,
    volumeCapability: required(capability),
    secrets,
    volumeContext: map,
  }),
  NodeUnstageVolume: message<RequestOf<"NodeUnstageVolume">>({ volumeId: theId, stagingTargetPath: thePath }),
  NodePublishVolume: message<RequestOf<"NodePublishVolume">>({
    volumeId: theId,
    publishContext: map,
    stagingTargetPath: maybePath,
    targetPath: thePath,
    volumeCapability: required(capability),
    readonly: anything,
    secrets,
    volumeContext: map,
  }),
  NodeUnpublishVolume: message<RequestOf<"NodeUnpublishVolume">>({ volumeId: theId, targetPath: thePath }),
  NodeGetVolumeStats: message<RequestOf<"NodeGetVolumeStats">>({
    volumeId: theId,
    volumePath: thePath,
    stagingTargetPath: maybePath,
  }),
  NodeGetVolumeHealth: message<RequestOf<"NodeGetVolumeHealth">>({
    volumeId: theId,
    volumePublishPath: maybePath,
    stagingTargetPath: maybePath,
  }),
  NodeGetStorageHealth: message<RequestOf<"NodeGetStorageHealth">>({ secrets }),
  NodeExpandVolume: message<RequestOf<"NodeExpandVolume">>({
    volumeId: theId,
    volumePath: thePath,
    capacityRange: optional(capacityRange),
    stagingTargetPath: maybePath,
    volumeCapability: optional(capability),
    secrets,
  }),
};

export function requestViolations<M extends CsiMethod>(method: M, request: RequestOf<M>): FieldViolation[] {
  return violationsOf<RequestOf<M>>(rules[method], request);
}

/** Throws INVALID_ARGUMENT with every violation; nothing has been sent then. */
export function validateRequest<M extends CsiMethod>(method: M, request: RequestOf<M>): void {
  const violations = requestViolations(method, request);
  if (violations.length === 0) return;
  const listed = violations.map(({ field, description }) => `${field} ${description}`).join("; ");
  throw invalidArgument(violations, `${pathOf(method)} was not sent: ${listed}`);
}
