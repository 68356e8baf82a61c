import type {
  ControllerPublishVolumeRequest,
  ControllerUnpublishVolumeRequest,
  NodePublishVolumeRequest,
  NodeStageVolumeRequest,
  NodeUnpublishVolumeRequest,
  NodeUnstageVolumeRequest,
  VolumeCapability,
} from "@holdfast/shared/gen/csi/v1/csi";
import { CreateVolumeRequest, VolumeCapability_AccessMode_Mode } from "@holdfast/shared/gen/csi/v1/csi";
import { PublishRequest, ReleaseRequest } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  Claim,
  type ClaimState,
  CreateClaimsRequest,
  ReleaseClaimsRequest,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import type { FloorVolume } from "./floor-volumes.ts";

type PublishContext = Readonly<Record<string, string>>;

/** Messages of the size that the product's have: the floor shall pay for the same bytes, and for nothing else. */

const uid = "0b6f4c1e-5d9a-4a57-9d6c-3f1f2f0a7c11";
const epoch = { gen: 1n, ctr: 42n };
const mountFlags = ["nosuid", "nodev"];
const capability: VolumeCapability = {
  mount: { fsType: "ext4", mountFlags, volumeMountGroup: "" },
  accessMode: { mode: VolumeCapability_AccessMode_Mode.SINGLE_NODE_WRITER },
};

/** The only node of the floor. */
export const floorNode = "node-a";

export const createVolumeMessage = (volume: string): CreateVolumeRequest =>
  CreateVolumeRequest.fromPartial({
    name: `floor-${volume}`,
    capacityRange: { requiredBytes: 16n << 20n },
    volumeCapabilities: [capability],
  });

export const createClaimsMessage = (volume: string): CreateClaimsRequest =>
  CreateClaimsRequest.fromPartial({
    namespace: "bench",
    workload: `w-${volume}`,
    node: floorNode,
    claims: [{ volume, readOnly: false }],
    waitFor: { seconds: 30n, nanos: 0 },
  });

export const releaseClaimsMessage = (volume: string): ReleaseClaimsRequest =>
  ReleaseClaimsRequest.fromPartial({
    namespace: "bench",
    workload: `w-${volume}`,
    waitFor: { seconds: 30n, nanos: 0 },
  });

export const claimMessage = (volume: FloorVolume, state: ClaimState): Claim =>
  Claim.fromPartial({
    namespace: "bench",
    volume: volume.name,
    workload: `w-${volume.name}`,
    alias: volume.name,
    uid,
    node: floorNode,
    accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
    attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
    fsType: "ext4",
    state,
    epoch,
    hostPath: volume.target,
    createdAt: new Date(),
    stateSince: new Date(),
    activeAt: new Date(),
    revision: 42n,
  });

export const permitMessage = (volume: FloorVolume, publishContext: PublishContext): PublishRequest =>
  PublishRequest.fromPartial({
    permit: {
      namespace: "bench",
      volume: volume.name,
      volumeUid: uid,
      externalId: volume.id,
      plugin: "sim.holdfast.dev",
      claimUid: uid,
      workload: `w-${volume.name}`,
      alias: volume.name,
      node: floorNode,
      nodeEpoch: 1n,
      epoch,
      oldestLiveEpoch: epoch,
      accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
      attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      fsType: "ext4",
      volumeContext: volume.context,
      publishContext,
      attempt: 1,
    },
  });

export const releaseMessage = (volume: FloorVolume): ReleaseRequest =>
  ReleaseRequest.fromPartial({
    namespace: "bench",
    volume: volume.name,
    volumeUid: uid,
    externalId: volume.id,
    plugin: "sim.holdfast.dev",
    claimUid: uid,
    node: floorNode,
    nodeEpoch: 1n,
    epoch,
  });

export const attachMessage = (volume: FloorVolume): ControllerPublishVolumeRequest => ({
  volumeId: volume.id,
  nodeId: floorNode,
  volumeCapability: capability,
  readonly: false,
  secrets: {},
  volumeContext: volume.context,
});

export const detachMessage = (volume: FloorVolume): ControllerUnpublishVolumeRequest => ({
  volumeId: volume.id,
  nodeId: floorNode,
  secrets: {},
});

export const stageMessage = (volume: FloorVolume, publishContext: PublishContext): NodeStageVolumeRequest => ({
  volumeId: volume.id,
  publishContext,
  stagingTargetPath: volume.staging,
  volumeCapability: capability,
  secrets: {},
  volumeContext: volume.context,
});

export const publishMessage = (volume: FloorVolume, publishContext: PublishContext): NodePublishVolumeRequest => ({
  ...stageMessage(volume, publishContext),
  targetPath: volume.target,
  readonly: false,
});

export const unpublishMessage = (volume: FloorVolume): NodeUnpublishVolumeRequest => ({
  volumeId: volume.id,
  targetPath: volume.target,
});

export const unstageMessage = (volume: FloorVolume): NodeUnstageVolumeRequest => ({
  volumeId: volume.id,
  stagingTargetPath: volume.staging,
});
