/**
 * Every field that the descriptors mark (csi_secret, debug_redact), and which canary goes through it. A field without a row fails the
 * test: a new one gets a canary before it is served.
 */
import { configSchema as controllerSchema } from "@holdfast/controller/config";
import { configSchema as agentSchema } from "@holdfast/node-agent/config";
import { messageTypes } from "@holdfast/shared/gen/redacted-fields";

export type StoreName = "SQLite" | "Redis";

/** The secret that a plugin gets with a method, and where it does, when it is not over both stores. */
export interface Carried {
  readonly canary: string;
  readonly over?: StoreName;
}

/** Over Redis the plugin cannot list the health of its volumes, and runs on a node. */
export const carriedTo: Readonly<Record<string, Carried>> = {
  CreateVolume: { canary: "create" },
  DeleteVolume: { canary: "delete" },
  ControllerPublishVolume: { canary: "controllerPublish" },
  ControllerUnpublishVolume: { canary: "controllerPublish" },
  ValidateVolumeCapabilities: { canary: "create" },
  ControllerExpandVolume: { canary: "controllerExpand" },
  ControllerModifyVolume: { canary: "modify" },
  ControllerListVolumeHealth: { canary: "list", over: "SQLite" },
  ControllerGetVolumeHealth: { canary: "list", over: "Redis" },
  CreateSnapshot: { canary: "snapshot-create" },
  ListSnapshots: { canary: "snapshot-list" },
  DeleteSnapshot: { canary: "snapshot-delete" },
  CreateVolumeGroupSnapshot: { canary: "snapshot-create" },
  DeleteVolumeGroupSnapshot: { canary: "snapshot-delete" },
  GetMetadataAllocated: { canary: "snapshot-metadata" },
  GetMetadataDelta: { canary: "snapshot-metadata" },
  NodeStageVolume: { canary: "nodeStage" },
  NodePublishVolume: { canary: "nodePublish" },
  NodeExpandVolume: { canary: "nodeExpand" },
  NodeGetStorageHealth: { canary: "nodeHealth" },
};

/** Holdfast makes neither call. */
export const neverCalled: readonly string[] = ["GetSnapshot", "GetVolumeGroupSnapshot"];

export const carriedOver = (store: StoreName): readonly (readonly [string, string])[] =>
  Object.entries(carriedTo).flatMap(([method, { canary, over }]) =>
    over === undefined || over === store ? [[method, canary] as const] : [],
  );

const byCalls = (...methods: readonly string[]) => ({ methods });
/** Looked for by another test, which has what this one lacks. */
const elsewhere = (test: string) => ({ test });
/** Not a secret, and treated like one: CSI says that it may be sensitive. */
const kept = { private: true } as const;

export type OwnField = ReturnType<typeof byCalls> | ReturnType<typeof elsewhere> | typeof kept;

/** Holdfast's own: a secret in it is seen to come out at the plugin of one of those calls. */
export const ownFields: Readonly<Record<string, OwnField>> = {
  "holdfast.internal.v1.ExpandRequest.nodeExpandSecrets": byCalls("NodeExpandVolume"),
  "holdfast.internal.v1.GetHealthSecretsResponse.secrets": byCalls("NodeGetStorageHealth"),
  "holdfast.internal.v1.IdentityTokenValue.token": byCalls("NodePublishVolume"),
  "holdfast.internal.v1.Permit.stageSecrets": byCalls("NodeStageVolume"),
  "holdfast.internal.v1.Permit.nodePublishSecrets": byCalls("NodePublishVolume"),
  "holdfast.internal.v1.Permit.nodeExpandSecrets": byCalls("NodeExpandVolume"),
  "holdfast.internal.v1.RelayRequest.request": byCalls("CreateVolume", "ControllerPublishVolume"),
  "holdfast.internal.v1.RelayResponse.response": byCalls("CreateVolume", "ControllerPublishVolume"),
  "holdfast.internal.v1.RelayStreamRequest.request": byCalls("GetMetadataAllocated"),
  "holdfast.internal.v1.RelayStreamResponse.response": byCalls("GetMetadataAllocated"),
  "holdfast.internal.v1.TransferChunk.data": elsewhere("packages/shared/src/grpc/redact.test.ts"),
  "holdfast.agent.v1.PrepareWorkloadRequest.ticket": elsewhere("test/e2e/workloads.e2e.test.ts"),
  "holdfast.agent.v1.ReleaseWorkloadRequest.ticket": elsewhere("test/e2e/workloads.e2e.test.ts"),
  "holdfast.internal.v1.ReleaseClaimsRequest.ticket": elsewhere("test/e2e/workloads.e2e.test.ts"),
  "holdfast.internal.v1.RequestClaimsRequest.ticket": elsewhere("test/e2e/workloads.e2e.test.ts"),
  "holdfast.v1.SetGrantRequest.ticketKeys": elsewhere("test/cli/operators.test.ts"),
  "holdfast.v1.CreateNodeTokenResponse.token": elsewhere("test/trust/enrolment.test.ts"),
  "holdfast.v1.EnrolRequest.token": elsewhere("test/trust/enrolment.test.ts"),
  "holdfast.v1.CreateVolumeRequest.inlineSecrets": byCalls("CreateVolume"),
  "holdfast.v1.RegisterVolumeRequest.inlineSecrets": byCalls("ValidateVolumeCapabilities"),
  "holdfast.v1.PutSecretRequest.values": byCalls("ControllerModifyVolume"),

  "holdfast.internal.v1.Permit.mountFlags": kept,
  "holdfast.internal.v1.Permit.publishContext": kept,
  "holdfast.internal.v1.Permit.volumeContext": kept,
  "holdfast.v1.AdoptVolumeRequest.context": kept,
  "holdfast.v1.Claim.mountFlags": kept,
  "holdfast.v1.CreateSnapshotGroupRequest.parameters": kept,
  "holdfast.v1.CreateSnapshotRequest.parameters": kept,
  "holdfast.v1.CreateVolumeRequest.mutableParameters": kept,
  "holdfast.v1.CreateVolumeRequest.parameters": kept,
  "holdfast.v1.ExternalVolume.context": kept,
  "holdfast.v1.GetCapacityRequest.parameters": kept,
  "holdfast.v1.Modification.mutableParameters": kept,
  "holdfast.v1.ModifyVolumeRequest.mutableParameters": kept,
  "holdfast.v1.RegisterVolumeRequest.context": kept,
  "holdfast.v1.RegisterVolumeRequest.mutableParameters": kept,
  "holdfast.v1.RegisterVolumeRequest.parameters": kept,
  "holdfast.v1.RestoredVolume.mutableParameters": kept,
  "holdfast.v1.RestoredVolume.parameters": kept,
  "holdfast.v1.Snapshot.parameters": kept,
  "holdfast.v1.SnapshotGroup.parameters": kept,
  "holdfast.v1.Volume.context": kept,
  "holdfast.v1.Volume.mutableParameters": kept,
  "holdfast.v1.Volume.parameters": kept,
  "holdfast.v1.VolumeCapability.mountFlags": kept,
  "holdfast.v1.VolumeTemplate.mutableParameters": kept,
  "holdfast.v1.VolumeTemplate.parameters": kept,
};

/** Settings that are told to be secret: where the canary in one of them is, or why there is none. */
export const ownSettings: Readonly<Record<string, string>> = {
  HOLDFAST_STORE: "the password of Redis",
  HOLDFAST_PROXY: "the login of the proxy between agent and controller",
  HOLDFAST_STORE_SENTINEL_LOGIN:
    "none: there are no sentinels here; redis-access.ts reads it, as it reads the password",
  HOLDFAST_STORE_MIGRATE:
    "none: nothing is moved here; it is an address as in HOLDFAST_STORE, and read by the same code",
};

export const secretSettings = (): readonly string[] =>
  [controllerSchema, agentSchema].flatMap((schema) =>
    Object.values(schema).flatMap(({ env, secret }) => (secret ? [env] : [])),
  );

export const markedFields = (types: typeof messageTypes = messageTypes): readonly string[] =>
  Object.entries(types)
    .flatMap(([type, { redacted }]) => redacted.map((field) => `${type}.${field}`))
    .sort();

export const coveredFields = (): readonly string[] =>
  [
    ...[...Object.keys(carriedTo), ...neverCalled].map((method) => `csi.v1.${method}Request.secrets`),
    ...Object.keys(ownFields),
  ].sort();
