/** Each CSI method with the generated codecs of its request and reply. Generated types enter the package here. */
import {
  ControllerDefinition,
  type DeepPartial,
  GroupControllerDefinition,
  IdentityDefinition,
  NodeDefinition,
  SnapshotMetadataDefinition,
} from "@holdfast/shared/gen/csi/v1/csi";
import type { CsiMethod } from "./methods.ts";

export const definitions = {
  Probe: IdentityDefinition.methods.probe,
  GetPluginInfo: IdentityDefinition.methods.getPluginInfo,
  GetPluginCapabilities: IdentityDefinition.methods.getPluginCapabilities,
  CreateVolume: ControllerDefinition.methods.createVolume,
  DeleteVolume: ControllerDefinition.methods.deleteVolume,
  ControllerPublishVolume: ControllerDefinition.methods.controllerPublishVolume,
  ControllerUnpublishVolume: ControllerDefinition.methods.controllerUnpublishVolume,
  ValidateVolumeCapabilities: ControllerDefinition.methods.validateVolumeCapabilities,
  ListVolumes: ControllerDefinition.methods.listVolumes,
  GetCapacity: ControllerDefinition.methods.getCapacity,
  ControllerGetCapabilities: ControllerDefinition.methods.controllerGetCapabilities,
  CreateSnapshot: ControllerDefinition.methods.createSnapshot,
  DeleteSnapshot: ControllerDefinition.methods.deleteSnapshot,
  ListSnapshots: ControllerDefinition.methods.listSnapshots,
  GetSnapshot: ControllerDefinition.methods.getSnapshot,
  ControllerExpandVolume: ControllerDefinition.methods.controllerExpandVolume,
  ControllerGetVolume: ControllerDefinition.methods.controllerGetVolume,
  ControllerModifyVolume: ControllerDefinition.methods.controllerModifyVolume,
  GroupControllerGetCapabilities: GroupControllerDefinition.methods.groupControllerGetCapabilities,
  CreateVolumeGroupSnapshot: GroupControllerDefinition.methods.createVolumeGroupSnapshot,
  DeleteVolumeGroupSnapshot: GroupControllerDefinition.methods.deleteVolumeGroupSnapshot,
  GetVolumeGroupSnapshot: GroupControllerDefinition.methods.getVolumeGroupSnapshot,
  GetMetadataAllocated: SnapshotMetadataDefinition.methods.getMetadataAllocated,
  GetMetadataDelta: SnapshotMetadataDefinition.methods.getMetadataDelta,
  NodeStageVolume: NodeDefinition.methods.nodeStageVolume,
  NodeUnstageVolume: NodeDefinition.methods.nodeUnstageVolume,
  NodePublishVolume: NodeDefinition.methods.nodePublishVolume,
  NodeUnpublishVolume: NodeDefinition.methods.nodeUnpublishVolume,
  ControllerListVolumeHealth: ControllerDefinition.methods.controllerListVolumeHealth,
  ControllerGetVolumeHealth: ControllerDefinition.methods.controllerGetVolumeHealth,
  NodeGetVolumeHealth: NodeDefinition.methods.nodeGetVolumeHealth,
  NodeGetStorageHealth: NodeDefinition.methods.nodeGetStorageHealth,
  NodeGetVolumeStats: NodeDefinition.methods.nodeGetVolumeStats,
  NodeExpandVolume: NodeDefinition.methods.nodeExpandVolume,
  NodeGetCapabilities: NodeDefinition.methods.nodeGetCapabilities,
  NodeGetInfo: NodeDefinition.methods.nodeGetInfo,
} as const satisfies Record<CsiMethod, unknown>;

type Definitions = typeof definitions;

/** The whole request message, every field present. */
export type RequestOf<M extends CsiMethod> = ReturnType<Definitions[M]["requestType"]["decode"]>;
export type ResponseOf<M extends CsiMethod> = ReturnType<Definitions[M]["responseType"]["decode"]>;
/** What a caller may hand in: fields left out take their protobuf default. */
export type RequestInput<M extends CsiMethod> = DeepPartial<RequestOf<M>>;

/** The calls of one method, with the method fixed: TypeScript cannot follow the pair through a table on its own. */
export interface Codec<M extends CsiMethod> {
  complete(input: RequestInput<M>): RequestOf<M>;
  encode(request: RequestOf<M>): Uint8Array;
  decodeRequest(bytes: Uint8Array): RequestOf<M>;
  /** Throws when the bytes are no such message. */
  decode(bytes: Uint8Array): ResponseOf<M>;
}

interface AnyMessage {
  fromPartial(input: unknown): unknown;
  encode(message: unknown): { finish(): Uint8Array };
  decode(bytes: Uint8Array): unknown;
}

export function codecOf<M extends CsiMethod>(method: M): Codec<M> {
  const definition = definitions[method];
  const request = definition.requestType as AnyMessage;
  const response = definition.responseType as AnyMessage;
  return {
    complete: (input) => request.fromPartial(input) as RequestOf<M>,
    encode: (message) => request.encode(message).finish(),
    decodeRequest: (bytes) => request.decode(bytes) as RequestOf<M>,
    decode: (bytes) => response.decode(bytes) as ResponseOf<M>,
  };
}

/** For the questions that have no fields. */
export function emptyRequest<M extends CsiMethod>(method: M): RequestOf<M> {
  return codecOf(method).complete({} as RequestInput<M>);
}
