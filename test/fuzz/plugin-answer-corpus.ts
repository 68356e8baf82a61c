/** Questions to plugins and what sound ones answer: every method whose answer has fields. */
import { codecOf, definitions, type RequestInput } from "@holdfast/csi/messages";
import type { CsiMethod } from "@holdfast/csi/methods";
import type { Encoder } from "./mutate-message.ts";

export interface AnswerSample {
  readonly method: CsiMethod;
  readonly request: unknown;
  readonly response: unknown;
  readonly type: Encoder;
}

const segments = { "topology.example/zone": "z1" };
const volume = {
  volumeId: "v-1",
  capacityBytes: 1n << 30n,
  volumeContext: { path: "/exports/v-1" },
  contentSource: { snapshot: { snapshotId: "s-1" } },
  accessibleTopology: [{ segments }],
};
const snapshot = {
  snapshotId: "s-1",
  sourceVolumeId: "v-1",
  sizeBytes: 1n << 20n,
  creationTime: new Date(1_700_000_000_000),
  readyToUse: true,
  groupSnapshotId: "g-1",
  accessibleTopology: [{ segments }],
};
const status = { publishedNodeIds: ["n-1", "n-2"], volumeCondition: { abnormal: true, message: "slow" } };
const health = { volumeId: "v-1", healthStatuses: [{ status: 2, reason: "PathLost", message: "one of two" }] };
const group = { groupSnapshotId: "g-1", snapshots: [snapshot], creationTime: snapshot.creationTime, readyToUse: true };
const mount = { mount: { fsType: "ext4", mountFlags: ["noatime"], volumeMountGroup: "100" }, accessMode: { mode: 1 } };

const sample = <M extends CsiMethod>(method: M, request: RequestInput<M>, response: unknown): AnswerSample => {
  const type = definitions[method].responseType as unknown as Encoder & { fromPartial(value: unknown): unknown };
  return { method, request: codecOf(method).complete(request), response: type.fromPartial(response), type };
};

export const answerSamples: readonly AnswerSample[] = [
  sample("GetPluginInfo", {}, { name: "csi.example.com", vendorVersion: "1.2.3", manifest: { url: "x" } }),
  sample("NodeGetInfo", {}, { nodeId: "n-1", maxVolumesPerNode: 16n, accessibleTopology: { segments } }),
  sample("CreateVolume", { volumeContentSource: { snapshot: { snapshotId: "s-1" } } }, { volume }),
  sample("CreateVolume", {}, { volume: { ...volume, contentSource: undefined } }),
  sample("ControllerPublishVolume", {}, { publishContext: { device: "/dev/sdb", lun: "4" } }),
  sample("ListVolumes", {}, { entries: [{ volume, status }, { volume }], nextToken: "t-2" }),
  sample("GetCapacity", {}, { availableCapacity: 1n << 40n, maximumVolumeSize: 1n << 38n, minimumVolumeSize: 1n }),
  sample("CreateSnapshot", { sourceVolumeId: "v-1" }, { snapshot }),
  sample("ListSnapshots", {}, { entries: [{ snapshot }], nextToken: "t-2" }),
  sample("GetSnapshot", { snapshotId: "s-1" }, { snapshot }),
  sample("ControllerExpandVolume", {}, { capacityBytes: 1n << 31n, nodeExpansionRequired: true }),
  sample("ControllerGetVolume", { volumeId: "v-1" }, { volume, status }),
  sample("ControllerListVolumeHealth", {}, { entries: [health], nextToken: "" }),
  sample("ControllerGetVolumeHealth", { volumeId: "v-1" }, { volumeHealth: health }),
  sample("CreateVolumeGroupSnapshot", {}, { groupSnapshot: group }),
  sample("GetVolumeGroupSnapshot", { groupSnapshotId: "g-1" }, { groupSnapshot: group }),
  sample(
    "GetMetadataAllocated",
    {},
    { blockMetadataType: 1, volumeCapacityBytes: 1n << 30n, blockMetadata: [{ byteOffset: 0n, sizeBytes: 4096n }] },
  ),
  sample(
    "NodeGetVolumeStats",
    {},
    { usage: [{ unit: 1, total: 100n, used: 40n, available: 60n }], volumeCondition: status.volumeCondition },
  ),
  sample("NodeGetVolumeHealth", { volumeId: "v-1" }, { volumeHealth: health }),
  sample("NodeGetStorageHealth", {}, { backendHealth: [{ status: 2, reason: "Slow", volumeCapability: mount }] }),
  sample("NodeExpandVolume", {}, { capacityBytes: 1n << 31n }),
  sample("ValidateVolumeCapabilities", {}, { confirmed: { volumeContext: { a: "b" }, volumeCapabilities: [mount] } }),
];
