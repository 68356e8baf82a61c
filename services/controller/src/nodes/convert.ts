/** Domain ↔ what controllers and agents say to each other. Generated types go no further than this folder. */
import type { Epoch } from "@holdfast/model/epoch";
import type { DeepPartial, Permit as WirePermit } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  type HeldClaim,
  HeldState,
  type InventoryVolume,
  type ReleaseRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { RegisterHeader } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { VerificationScope, type Epoch as WireEpoch } from "@holdfast/shared/gen/holdfast/v1/common";
import {
  accessModeFrom,
  accessModeMessage,
  attachmentModeFrom,
  attachmentModeMessage,
  epochMessage,
} from "@holdfast/shared/grpc/convert-model";
import type { ReleaseOrder } from "../agent-ports.ts";
import type { Inventory, JournalledPermit, Permit } from "../domain/claim/permit.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import { rangeMessage } from "./convert-figures.ts";

export interface PermitSecrets {
  readonly stage: Readonly<Record<string, string>>;
  readonly publish: Readonly<Record<string, string>>;
  readonly expand: Readonly<Record<string, string>>;
}

export const epochFrom = (epoch: WireEpoch | undefined): Epoch => ({
  gen: Number(epoch?.gen ?? 0n),
  ctr: Number(epoch?.ctr ?? 0n),
});

export const permitMessage = (permit: Permit, secrets: PermitSecrets, attempt: number): DeepPartial<WirePermit> => {
  const { volume, claim, attachment } = permit;
  return {
    namespace: volume.namespace,
    volume: volume.id,
    volumeUid: volume.uid,
    externalId: volume.externalId,
    plugin: volume.plugin,
    claimUid: claim.uid,
    workload: claim.workload,
    alias: claim.alias,
    node: claim.node,
    nodeEpoch: BigInt(permit.nodeEpoch),
    epoch: epochMessage(permit.epoch),
    oldestLiveEpoch: epochMessage(permit.oldestLiveEpoch),
    accessMode: accessModeMessage(claim.accessMode),
    attachmentMode: attachmentModeMessage(claim.attachmentMode),
    readOnly: claim.readOnly,
    fsType: claim.fsType,
    mountFlags: [...claim.mountFlags],
    volumeMountGroup: claim.volumeMountGroup,
    volumeContext: { ...volume.context },
    publishContext: { ...attachment.publishContext },
    stageSecrets: { ...secrets.stage },
    nodePublishSecrets: { ...secrets.publish },
    attempt,
    expandTo: permit.expandTo && rangeMessage(permit.expandTo),
    nodeExpandSecrets: { ...secrets.expand },
  };
};

export const releaseMessage = (node: string, order: ReleaseOrder, attempt: number): DeepPartial<ReleaseRequest> => ({
  namespace: order.namespace,
  volume: order.volume,
  volumeUid: order.volumeUid,
  externalId: order.externalId,
  plugin: order.plugin,
  claimUid: order.claimUid,
  node,
  nodeEpoch: BigInt(order.nodeEpoch),
  epoch: epochMessage(order.epoch),
  attempt,
});

const heldState = (state: HeldState): string =>
  Object.keys(HeldState)
    .find((name) => HeldState[name as keyof typeof HeldState] === state)
    ?.replace("HELD_STATE_", "") ?? "UNKNOWN";

const journalledPermit = (held: HeldClaim): { readonly permit?: JournalledPermit } => {
  const { target, readOnly, fsType, releasing } = held;
  const accessMode = accessModeFrom(held.accessMode);
  const attachmentMode = attachmentModeFrom(held.attachmentMode);
  if (accessMode === "UNKNOWN" || attachmentMode === undefined) return {};
  const numbers = { nodeEpoch: Number(held.nodeEpoch), mountId: Number(held.mountId) };
  return { permit: { accessMode, attachmentMode, readOnly, fsType, target, releasing, ...numbers } };
};

export const inventoryVolume = (volume: InventoryVolume): Inventory["volumes"][number] => ({
  namespace: volume.namespace,
  volume: volume.volume,
  volumeUid: volume.volumeUid,
  externalId: volume.externalId,
  plugin: volume.plugin,
  ...(volume.floor === undefined ? {} : { floor: epochFrom(volume.floor) }),
  held: volume.held.map((held) => ({
    claimUid: held.claimUid,
    workload: held.workload,
    alias: held.alias,
    epoch: epochFrom(held.epoch),
    state: heldState(held.state),
    ...journalledPermit(held),
  })),
  ...(volume.blocked === undefined ? {} : { blocked: volume.blocked.reason }),
});

export const scopeFrom = (scope: VerificationScope): NodeRecord["verificationScope"] =>
  scope === VerificationScope.VERIFICATION_SCOPE_HOST ? "host" : "own-namespace";

/** Who registers, in the domain's words. */
export interface AgentHeader {
  readonly name: string;
  readonly machineId: string;
  readonly bootId: string;
  readonly instance: string;
  readonly journalUid: string;
  /** Of the directory that the agent has locked; empty when it does not tell. */
  readonly lockId: string;
  /** What no copy of its host has; empty when there is nothing. */
  readonly hostIdentity: string;
  readonly version: string;
  readonly verificationScope: NodeRecord["verificationScope"];
  readonly nodeEpoch: number;
  readonly clusterUid: string;
  readonly fingerprintRevision: number;
}

export const headerFrom = (header: RegisterHeader): AgentHeader => ({
  name: header.name,
  machineId: header.machineId,
  bootId: header.bootId,
  instance: header.instance,
  journalUid: header.journalUid,
  lockId: header.lockId,
  hostIdentity: header.hostIdentity,
  version: header.version,
  verificationScope: scopeFrom(header.verificationScope),
  nodeEpoch: Number(header.nodeEpoch),
  clusterUid: header.clusterUid,
  fingerprintRevision: Number(header.fingerprintRevision),
});
