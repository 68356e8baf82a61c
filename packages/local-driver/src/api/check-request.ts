/** What a request has to be like before anything is looked at: INVALID_ARGUMENT says everything that is wrong with it. */
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type {
  CapacityRange,
  Topology,
  TopologyRequirement,
  VolumeCapability,
  VolumeContentSource,
} from "@holdfast/shared/gen/csi/v1/csi";
import { offeredCapability, wellFormedCapability } from "./check-capability.ts";
import {
  anything,
  both,
  type Check,
  distinct,
  every,
  form,
  id,
  inner,
  lookedUpPath,
  map,
  name,
  nodeId,
  notNegative,
  optional,
  path,
  required,
  someEntries,
  type Violation,
  violationsOf,
  word,
} from "./check-field.ts";
import type { Method, Requests } from "./requests.ts";

const capability = both<VolumeCapability>(wellFormedCapability, offeredCapability);
const theId = required<string>(id);
const thePath = required<string>(path);
const distinctIds: Check<string[]> = both<string[]>(every(theId), distinct);
/** Only looked up among the paths of the volume: one that is none of them is NOT_FOUND, however it is written. */
const somePath = required<string>(lookedUpPath);

/** "At least one of these fields MUST be specified", and a ceiling below the floor can never be met. */
const capacity: Check<CapacityRange> = ({ requiredBytes, limitBytes }, field, tell) => {
  notNegative(requiredBytes, inner(field, "required_bytes"), tell);
  notNegative(limitBytes, inner(field, "limit_bytes"), tell);
  if (requiredBytes === 0n && limitBytes === 0n) tell(field, "needs required_bytes or limit_bytes");
  if (limitBytes > 0n && requiredBytes > limitBytes) tell(field, "has a limit_bytes below its required_bytes");
};

const source: Check<VolumeContentSource> = ({ snapshot, volume }, field, tell) => {
  if ((snapshot === undefined) === (volume === undefined)) tell(field, "needs exactly one of snapshot and volume");
  if (snapshot !== undefined) theId(snapshot.snapshotId, inner(field, "snapshot.snapshot_id"), tell);
  if (volume !== undefined) theId(volume.volumeId, inner(field, "volume.volume_id"), tell);
};

/** Keys that differ by case only are one key with two values. */
const topology: Check<Topology> = ({ segments }, field, tell) => {
  const where = inner(field, "segments");
  map(segments, where, tell);
  const keys = Object.keys(segments);
  if (keys.length === 0) tell(where, "needs one entry at least");
  if (new Set(keys.map((key) => key.toLowerCase())).size < keys.length)
    tell(where, "has keys that differ by case only");
};

const reachable: Check<TopologyRequirement> = both<TopologyRequirement>(
  form({ requisite: every(topology), preferred: every(topology) }),
  ({ requisite, preferred }, field, tell) => {
    if (requisite.length === 0 && preferred.length === 0) tell(field, "needs a requisite or a preferred topology");
  },
);

const notOffered: Check<unknown> = (value, field, tell) => {
  if (value !== undefined)
    tell(field, "needs the capability SNAPSHOT_ACCESSIBILITY_CONSTRAINTS, which this driver lacks");
};

const checks: { readonly [M in Method]: Check<Requests[M]> } = {
  GetPluginInfo: anything,
  GetPluginCapabilities: anything,
  Probe: anything,
  ControllerGetCapabilities: anything,
  GroupControllerGetCapabilities: anything,
  NodeGetCapabilities: anything,
  NodeGetInfo: anything,

  CreateVolume: form({
    name: required(name),
    capacityRange: optional(capacity),
    volumeCapabilities: required<VolumeCapability[]>(every(capability)),
    parameters: map,
    secrets: map,
    volumeContentSource: optional(source),
    accessibilityRequirements: optional(reachable),
    mutableParameters: map,
  }),
  DeleteVolume: form({ volumeId: theId, secrets: map }),
  ControllerPublishVolume: form({
    volumeId: theId,
    nodeId: required(nodeId),
    volumeCapability: required(capability),
    readonly: anything,
    secrets: map,
    volumeContext: map,
  }),
  // "If the value is empty, the volume is unpublished from all nodes."
  ControllerUnpublishVolume: form({ volumeId: theId, nodeId, secrets: map }),
  // What is well formed and not offered is not confirmed; it is no error.
  ValidateVolumeCapabilities: form({
    volumeId: theId,
    volumeContext: map,
    volumeCapabilities: required<VolumeCapability[]>(every(wellFormedCapability)),
    parameters: map,
    secrets: map,
    mutableParameters: map,
  }),
  // A token is of our own making: whatever is no longer one is ABORTED, not INVALID_ARGUMENT.
  ListVolumes: form({ maxEntries: notNegative, startingToken: anything }),
  // Of what is not offered there is no room.
  GetCapacity: form({
    volumeCapabilities: every(wellFormedCapability),
    parameters: map,
    accessibleTopology: optional(topology),
  }),
  CreateSnapshot: form({
    sourceVolumeId: theId,
    name: required(name),
    secrets: map,
    parameters: map,
    accessibilityRequirements: notOffered,
  }),
  DeleteSnapshot: form({ snapshotId: theId, secrets: map }),
  ListSnapshots: form({
    maxEntries: notNegative,
    startingToken: anything,
    sourceVolumeId: word,
    snapshotId: word,
    secrets: map,
  }),
  GetSnapshot: form({ snapshotId: theId, secrets: map }),
  ControllerExpandVolume: form({
    volumeId: theId,
    capacityRange: required(capacity),
    secrets: map,
    volumeCapability: optional(capability),
  }),
  ControllerGetVolume: form({ volumeId: theId }),
  ControllerListVolumeHealth: anything,
  ControllerGetVolumeHealth: anything,
  ControllerModifyVolume: form({
    volumeId: theId,
    secrets: map,
    mutableParameters: both(someEntries, map),
  }),

  CreateVolumeGroupSnapshot: form({
    name: required(name),
    sourceVolumeIds: required(distinctIds),
    secrets: map,
    parameters: map,
  }),
  // None at all are compared with the group's like any others: a group that is gone comes first.
  DeleteVolumeGroupSnapshot: form({ groupSnapshotId: theId, snapshotIds: distinctIds, secrets: map }),
  GetVolumeGroupSnapshot: form({ groupSnapshotId: theId, snapshotIds: distinctIds, secrets: map }),

  // A negative offset is OUT_OF_RANGE: the operation knows the range.
  GetMetadataAllocated: form({ snapshotId: theId, startingOffset: anything, maxResults: notNegative, secrets: map }),
  GetMetadataDelta: form({
    baseSnapshotId: theId,
    targetSnapshotId: theId,
    startingOffset: anything,
    maxResults: notNegative,
    secrets: map,
  }),

  NodeStageVolume: form({
    volumeId: theId,
    publishContext: map,
    stagingTargetPath: thePath,
    volumeCapability: required(capability),
    secrets: map,
    volumeContext: map,
  }),
  NodeUnstageVolume: form({ volumeId: theId, stagingTargetPath: thePath }),
  // A staging path left out is FAILED_PRECONDITION, as the specification has it.
  NodePublishVolume: form({
    volumeId: theId,
    publishContext: map,
    stagingTargetPath: optional(path),
    targetPath: thePath,
    volumeCapability: required(capability),
    readonly: anything,
    secrets: map,
    volumeContext: map,
  }),
  NodeUnpublishVolume: form({ volumeId: theId, targetPath: thePath }),
  NodeGetVolumeStats: form({ volumeId: theId, volumePath: somePath, stagingTargetPath: optional(lookedUpPath) }),
  NodeGetVolumeHealth: form({
    volumeId: theId,
    volumePublishPath: optional(lookedUpPath),
    stagingTargetPath: optional(lookedUpPath),
  }),
  NodeGetStorageHealth: form({ secrets: map }),
  NodeExpandVolume: form({
    volumeId: theId,
    volumePath: somePath,
    capacityRange: optional(capacity),
    stagingTargetPath: optional(lookedUpPath),
    volumeCapability: optional(capability),
    secrets: map,
  }),
};

export const requestViolations = <M extends Method>(method: M, request: Requests[M]): readonly Violation[] =>
  violationsOf<Requests[M]>(checks[method], request);

/** Throws INVALID_ARGUMENT with every violation. */
export const checkRequest = <M extends Method>(method: M, request: Requests[M]): void => {
  const violations = requestViolations(method, request);
  if (violations.length === 0) return;
  const listed = violations.map(({ field, description }) => `${field} ${description}`).join("; ");
  throw invalidArgument(violations, `${method}: ${listed}`);
};
