/** Sound requests of the API, a row for each method that the fuzzer asks. */
import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import { PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";

interface MessageType {
  fromPartial(value: never): unknown;
  encode(message: never): { finish(): Uint8Array };
  decode(bytes: Uint8Array): unknown;
}

export interface ApiSample {
  readonly method: string;
  readonly type: MessageType;
  readonly request: unknown;
  /** What it holds is stored. */
  readonly writes: boolean;
}

const definitions = [
  ...[VolumeServiceDefinition, ClaimServiceDefinition, NodeServiceDefinition, PlacementServiceDefinition],
  ...[PluginServiceDefinition, RepairServiceDefinition, SecretServiceDefinition],
];
const typeOf = (method: string): MessageType => {
  for (const { methods } of definitions)
    for (const { name, requestType } of Object.values(methods)) if (name === method) return requestType as MessageType;
  throw new Error(`the API has no method ${method}`);
};
const sample = (method: string, request: object, writes = false): ApiSample => {
  const type = typeOf(method);
  return { method, type, request: type.fromPartial(request as never), writes };
};

const namespace = "default";
const ref = { namespace, id: "data" };
const page = { pageSize: 10, pageToken: "" };
const plugin = "csi.example";
const capability = { attachmentMode: 1, accessMode: 6, fsType: "ext4", mountFlags: ["noatime"], volumeMountGroup: "" };
const waitFor = { seconds: 1n, nanos: 0 };
const volume = {
  ...{ ...ref, plugin, capabilities: [capability], parameters: { tier: "fast" }, labels: { team: "a" } },
  ...{ capacity: { requiredBytes: 1n << 20n, limitBytes: 1n << 30n }, requestId: "r-1" },
  policy: { reclaim: 1, nodeLoss: 1 },
};
const operator = { reason: "it is lost", dryRun: true, requestId: "r-2" };
const claim = { volume: "data", alias: "d", capability, readOnly: false };

export const apiSamples: readonly ApiSample[] = [
  sample("CreateVolume", { ...volume, topology: { required: [{ segments: { zone: "z1" } }] } }, true),
  sample("CreateVolume", { ...volume, id: "copy", contentSource: { volume: "data" }, waitFor }, true),
  sample("CreateVolume", { ...volume, id: "safe", inlineSecrets: { token: "t" } }, true),
  sample("RegisterVolume", { ...volume, id: "old", externalId: "disk-1", context: { path: "/x" } }, true),
  sample("UpdateVolume", { ...ref, labels: { labels: { a: "b" } }, reason: "r" }, true),
  sample("ExpandVolume", { ...ref, capacity: { requiredBytes: 1n << 21n, limitBytes: 0n }, requestId: "r" }, true),
  sample("ModifyVolume", { ...ref, mutableParameters: { iops: "1" } }, true),
  sample("DeleteVolume", ref),
  sample("DeregisterVolume", { ...ref, reason: "r" }),
  sample("GetVolume", ref),
  sample("ExplainVolume", ref),
  sample("ListVolumes", { filter: { namespace }, ...page }),
  sample("WatchVolumes", { filter: { namespace } }),
  sample("ListExternalVolumes", { plugin, ...page }),
  sample("GetCapacity", { plugin, capabilities: [capability], parameters: {} }),
  sample("CreateClaims", { namespace, workload: "w1", node: "n1", claims: [claim], requestId: "r-3" }, true),
  sample(
    "CreateClaims",
    { namespace, workload: "w2", node: "n2", claims: [claim], queue: { deadline: waitFor } },
    true,
  ),
  sample("WaitClaims", { namespace, workload: "w1", waitFor }),
  sample("ReleaseClaims", { namespace, workload: "w1", aliases: ["d"] }),
  sample("HandOver", { namespace, fromWorkload: "w1", toWorkload: "w3", toNode: "n2", deadline: waitFor }),
  sample("GetListToken", {}),
  sample("ReconcileWorkloads", { listToken: "t", node: "n1", namespace, live: [{ namespace, workload: "w1" }] }),
  sample("ListClaims", { filter: { namespace, workload: "w1", node: "n1" }, ...page }),
  sample("GetNode", { name: "n1" }),
  sample("ListNodes", page),
  sample("DrainNode", { name: "n1", reason: "r", mode: 1, deadline: waitFor }),
  sample("UndrainNode", { name: "n1" }),
  sample("FenceNode", { name: "n2", powerOffAttestation: "it is off", reason: "r" }),
  sample("ForgetNode", { name: "n2", reason: "r" }),
  sample("CheckPlacement", { namespace, workload: "w9", claims: [claim], nodes: ["n1"], ...page }),
  sample("SetPluginProfile", { name: plugin, profile: { maxConcurrentCalls: 4, maxVolumesPerNode: 8n } }, true),
  sample("ListPlugins", page),
  sample("AssertDetached", { namespace, volume: "data", node: "n1", evidence: "seen", ...operator }),
  sample("ForgetVolume", { namespace, volume: "data", ...operator }),
  sample("ListStuck", page),
  sample("ListAudit", page),
  sample("PutSecret", { namespace, name: "array", values: { token: "t" }, requestId: "r-4" }, true),
  sample("ListSecrets", { namespace, ...page }),
];
