/** From CSI's requests to what the operations are asked. Only of requests that were checked. */
import type {
  CreateVolumeRequest,
  CapacityRange as CsiCapacityRange,
  NodeExpandVolumeRequest,
  NodePublishVolumeRequest,
  NodeStageVolumeRequest,
  Topology,
  VolumeCapability,
  VolumeContentSource,
} from "@holdfast/shared/gen/csi/v1/csi";
import type { Capability, ContentSource } from "../domain/records.ts";
import type { CapacityRange, CreateVolumeInput, PublishInput, StageInput } from "../operations.ts";
import { toCapability } from "./check-capability.ts";
import { plainPath } from "./plain-path.ts";

export const toCapacity = (range: CsiCapacityRange | undefined): CapacityRange => ({
  requiredBytes: range?.requiredBytes ?? 0n,
  limitBytes: range?.limitBytes ?? 0n,
});

export const toOptionalCapability = (capability: VolumeCapability | undefined): Capability | undefined =>
  capability === undefined ? undefined : toCapability(capability);

/** Of a field that the check has shown to be there. */
export const toSureCapability = (capability: VolumeCapability | undefined): Capability => {
  if (capability === undefined) throw new Error("a checked request has no volume_capability");
  return toCapability(capability);
};

const toSource = (source: VolumeContentSource | undefined): ContentSource | undefined => {
  if (source?.snapshot !== undefined) return { kind: "snapshot", id: source.snapshot.snapshotId };
  return source?.volume === undefined ? undefined : { kind: "volume", id: source.volume.volumeId };
};

const segmentsOf = (topologies: readonly Topology[]): readonly Readonly<Record<string, string>>[] =>
  topologies.map(({ segments }) => segments);

export const toCreateVolume = (request: CreateVolumeRequest): CreateVolumeInput => ({
  name: request.name,
  capacity: toCapacity(request.capacityRange),
  capabilities: request.volumeCapabilities.map(toCapability),
  parameters: request.parameters,
  mutableParameters: request.mutableParameters,
  source: toSource(request.volumeContentSource),
  requisite: segmentsOf(request.accessibilityRequirements?.requisite ?? []),
  preferred: segmentsOf(request.accessibilityRequirements?.preferred ?? []),
});

export const toStage = (request: NodeStageVolumeRequest): StageInput => ({
  volumeId: request.volumeId,
  stagingPath: plainPath(request.stagingTargetPath),
  capability: toSureCapability(request.volumeCapability),
});

export const toPublish = (request: NodePublishVolumeRequest): PublishInput => ({
  volumeId: request.volumeId,
  stagingPath: plainPath(request.stagingTargetPath),
  targetPath: plainPath(request.targetPath),
  capability: toSureCapability(request.volumeCapability),
  readonly: request.readonly,
});

export const toNodeExpand = (request: NodeExpandVolumeRequest) => ({
  volumeId: request.volumeId,
  path: plainPath(request.volumePath),
  capacity: toCapacity(request.capacityRange),
  capability: toOptionalCapability(request.volumeCapability),
});
