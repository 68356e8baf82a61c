import type {
  ControllerPublishVolumeRequest,
  ControllerUnpublishVolumeRequest,
  NodePublishVolumeRequest,
  NodeStageVolumeRequest,
  NodeUnpublishVolumeRequest,
  NodeUnstageVolumeRequest,
  VolumeCapability,
} from "@holdfast/shared/gen/csi/v1/csi";
import { VolumeCapability_AccessMode_Mode } from "@holdfast/shared/gen/csi/v1/csi";
import { PublishRequest, ReleaseRequest } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  Claim,
  type ClaimState,
  CreateClaimsRequest,
  ReleaseClaimsRequest,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";

/** Messages of the size that the product's have: the floor shall pay for the same bytes, and for nothing else. */

const uid = "0b6f4c1e-5d9a-4a57-9d6c-3f1f2f0a7c11";
const epoch = { gen: 1n, ctr: 42n };
const context = { "sim.holdfast.dev/pool": "pool-1", "sim.holdfast.dev/made": "2026-01-01T00:00:00.000Z" };
const staging = `/var/lib/holdfast/volumes/${uid.replaceAll("-", "")}/staging`;
const target = `/var/lib/holdfast/volumes/${uid.replaceAll("-", "")}/targets/0a1b2c3d4e5f`;
const capability: VolumeCapability = {
  mount: { fsType: "ext4", mountFlags: [], volumeMountGroup: "" },
  accessMode: { mode: VolumeCapability_AccessMode_Mode.SINGLE_NODE_WRITER },
};

export const createClaimsMessage = (volume: string): CreateClaimsRequest =>
  CreateClaimsRequest.fromPartial({
    namespace: "bench",
    workload: `w-${volume}`,
    node: "node-a",
    claims: [{ volume, readOnly: false }],
    waitFor: { seconds: 30n, nanos: 0 },
  });

export const releaseClaimsMessage = (volume: string): ReleaseClaimsRequest =>
  ReleaseClaimsRequest.fromPartial({
    namespace: "bench",
    workload: `w-${volume}`,
    waitFor: { seconds: 30n, nanos: 0 },
  });

export const claimMessage = (volume: string, state: ClaimState): Claim =>
  Claim.fromPartial({
    namespace: "bench",
    volume,
    workload: `w-${volume}`,
    alias: volume,
    uid,
    node: "node-a",
    accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
    attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
    fsType: "ext4",
    state,
    epoch,
    hostPath: target,
    createdAt: new Date(),
    stateSince: new Date(),
    activeAt: new Date(),
    revision: 42n,
  });

export const permitMessage = (volume: string): PublishRequest =>
  PublishRequest.fromPartial({
    permit: {
      namespace: "bench",
      volume,
      volumeUid: uid,
      externalId: `sim-${volume}`,
      plugin: "sim.holdfast.dev",
      claimUid: uid,
      workload: `w-${volume}`,
      alias: volume,
      node: "node-a",
      nodeEpoch: 1n,
      epoch,
      oldestLiveEpoch: epoch,
      accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
      attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      fsType: "ext4",
      volumeContext: context,
      publishContext: { device: "/dev/sim0", node: "node-a" },
      attempt: 1,
    },
  });

export const releaseMessage = (volume: string): ReleaseRequest =>
  ReleaseRequest.fromPartial({
    namespace: "bench",
    volume,
    volumeUid: uid,
    externalId: `sim-${volume}`,
    plugin: "sim.holdfast.dev",
    claimUid: uid,
    node: "node-a",
    nodeEpoch: 1n,
    epoch,
  });

export const attachMessage = (volume: string): ControllerPublishVolumeRequest => ({
  volumeId: `sim-${volume}`,
  nodeId: "node-a",
  volumeCapability: capability,
  readonly: false,
  secrets: {},
  volumeContext: context,
});

export const detachMessage = (volume: string): ControllerUnpublishVolumeRequest => ({
  volumeId: `sim-${volume}`,
  nodeId: "node-a",
  secrets: {},
});

export const stageMessage = (volume: string): NodeStageVolumeRequest => ({
  volumeId: `sim-${volume}`,
  publishContext: { device: "/dev/sim0", node: "node-a" },
  stagingTargetPath: staging,
  volumeCapability: capability,
  secrets: {},
  volumeContext: context,
});

export const publishMessage = (volume: string): NodePublishVolumeRequest => ({
  volumeId: `sim-${volume}`,
  publishContext: { device: "/dev/sim0", node: "node-a" },
  stagingTargetPath: staging,
  targetPath: target,
  volumeCapability: capability,
  readonly: false,
  secrets: {},
  volumeContext: context,
});

export const unpublishMessage = (volume: string): NodeUnpublishVolumeRequest => ({
  volumeId: `sim-${volume}`,
  targetPath: target,
});

export const unstageMessage = (volume: string): NodeUnstageVolumeRequest => ({
  volumeId: `sim-${volume}`,
  stagingTargetPath: staging,
});
