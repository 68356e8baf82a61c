/** Volumes: messages of holdfast.v1 ↔ the commands' words. */

import { compareEpochs, zeroEpoch } from "@holdfast/model/epoch";
import type { Topology } from "@holdfast/shared/gen/holdfast/v1/common";
import {
  AttachmentState,
  GroupRestoreEnd,
  IntentOperation,
  NodeLossPolicy,
  ReclaimPolicy,
  VolumeBinding,
  type VolumeHolder,
  type Attachment as WireAttachment,
  type Bar as WireBar,
  type Intent as WireIntent,
  type VolumePolicy as WirePolicy,
  type Volume as WireVolume,
  VolumeState as WireVolumeState,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import { accessModeMessage, epochMessage } from "@holdfast/shared/grpc/convert-model";
import type { VolumeView } from "../../commands/model.ts";
import { barBlock, barWords } from "../../domain/bar-block.ts";
import { holds } from "../../domain/claim/claim-machine.ts";
import { callsOfVolume } from "../../domain/volume/long-calls.ts";
import type {
  Attachment,
  Bar,
  ContentSource,
  GroupRestore,
  Intent,
  Segments,
  VolumePolicy,
  VolumeRecord,
  VolumeState,
} from "../../domain/volume/volume.ts";
import { claimStateMessage } from "../claim/convert-claim.ts";
import {
  blockedMessage,
  callMessage,
  capabilityMessage,
  conditionMessage,
  dateOf,
  errorOf,
  healthMessages,
} from "../convert-message.ts";
import { secretsMessage } from "../secret/convert-secret.ts";
import { expansionMessage, modificationMessage } from "./convert-change.ts";

/** A record may have more; the whole number stands beside the list. */
const shown = 100;

export const volumeStateMessage = (state: VolumeState): WireVolumeState => WireVolumeState[`VOLUME_STATE_${state}`];

const topology = (segments: Segments): Topology => ({ segments: { ...segments } });

const policyMessage = (policy: VolumePolicy): WirePolicy => ({
  reclaim: policy.reclaim === "retain" ? ReclaimPolicy.RECLAIM_POLICY_RETAIN : ReclaimPolicy.RECLAIM_POLICY_DELETE,
  nodeLoss: policy.nodeLoss === "fence" ? NodeLossPolicy.NODE_LOSS_POLICY_FENCE : NodeLossPolicy.NODE_LOSS_POLICY_WAIT,
  identityTokens: policy.identityTokens.map(({ audience, ttlSeconds }) => ({
    audience,
    ttl: { seconds: BigInt(ttlSeconds), nanos: 0 },
  })),
  requiresRepublish: policy.requiresRepublish,
});

const sourceMessage = (source: ContentSource): WireVolume["contentSource"] =>
  source.kind === "none" ? undefined : { [source.kind]: source.id };

export const attachmentMessage = (volume: VolumeRecord, attachment: Attachment): WireAttachment => ({
  node: attachment.node,
  state: AttachmentState[`ATTACHMENT_STATE_${attachment.state}`],
  driverNodeId: attachment.nodeId,
  pluginVersion: attachment.pluginVersion,
  nodeEpoch: BigInt(attachment.nodeEpoch),
  since: undefined,
  claimUids: Object.values(volume.claims)
    .filter(({ node, state }) => node === attachment.node && holds[state])
    .map(({ uid }) => uid),
});

const operations: Readonly<Record<Intent["op"], IntentOperation>> = {
  create: IntentOperation.INTENT_OPERATION_CREATE,
  validate: IntentOperation.INTENT_OPERATION_VALIDATE,
  delete: IntentOperation.INTENT_OPERATION_DELETE,
  attach: IntentOperation.INTENT_OPERATION_ATTACH,
  detach: IntentOperation.INTENT_OPERATION_DETACH,
  expand: IntentOperation.INTENT_OPERATION_EXPAND,
  modify: IntentOperation.INTENT_OPERATION_MODIFY,
};

export const intentMessage = (intent: Intent | undefined): WireIntent | undefined =>
  intent === undefined
    ? undefined
    : {
        operation: operations[intent.op],
        node: intent.node ?? "",
        epoch: epochMessage(intent.epoch),
        issuer: intent.issuer,
        since: undefined,
        uncertainSince: dateOf(intent.uncertainSince),
      };

const barMessage =
  (volume: VolumeRecord) =>
  (bar: Bar): WireBar => ({
    node: bar.node,
    issuer: bar.issuer,
    since: dateOf(bar.since),
    reason: barWords(volume, bar),
    id: bar.opId,
    operation: bar.op,
    instance: bar.via,
    gate: bar.gate ?? "",
    attempts: bar.attempts.count,
    clearWith: barBlock(volume, bar).clearWith,
  });

export const barMessages = (volume: VolumeRecord): WireBar[] => volume.bars.map(barMessage(volume));

const holdersOf = (volume: VolumeRecord): readonly VolumeHolder[] =>
  Object.values(volume.claims)
    .filter(({ state }) => holds[state])
    .sort((a, b) => compareEpochs(a.epoch ?? zeroEpoch, b.epoch ?? zeroEpoch))
    .map((claim) => ({
      claimUid: claim.uid,
      workload: claim.workload,
      alias: claim.alias,
      node: claim.node,
      state: claimStateMessage(claim.state),
      accessMode: accessModeMessage(claim.accessMode),
      readOnly: claim.readOnly,
    }));

const restoreEnds = {
  undone: GroupRestoreEnd.GROUP_RESTORE_END_UNDONE,
  kept: GroupRestoreEnd.GROUP_RESTORE_END_KEPT,
} as const;

const restoreMessage = (restore: GroupRestore | undefined): WireVolume["restore"] =>
  restore && {
    uid: restore.uid,
    group: restore.group,
    members: restore.members.map(({ source, id }) => ({ source, id })),
    end: restore.end === undefined ? GroupRestoreEnd.GROUP_RESTORE_END_UNSPECIFIED : restoreEnds[restore.end],
  };

export const volumeMessage = ({ volume, rev }: VolumeView): WireVolume => {
  const holders = holdersOf(volume);
  const attachments = Object.values(volume.attachments);
  return {
    namespace: volume.namespace,
    id: volume.id,
    uid: volume.uid,
    externalId: volume.externalId,
    name: volume.name,
    plugin: volume.plugin,
    parameters: { ...volume.parameters },
    mutableParameters: { ...volume.mutableParameters },
    capabilities: volume.capabilities.map(capabilityMessage),
    capacity: {
      requiredBytes: BigInt(volume.capacity.required),
      limitBytes: BigInt(volume.capacity.limit),
      actualBytes: BigInt(volume.capacity.actual),
    },
    topology: {
      required: volume.topology.required.map(topology),
      preferred: volume.topology.preferred.map(topology),
      accessible: volume.topology.accessible.map(topology),
    },
    contentSource: sourceMessage(volume.contentSource),
    binding:
      volume.binding === undefined ? VolumeBinding.VOLUME_BINDING_IMMEDIATE : VolumeBinding.VOLUME_BINDING_FIRST_CLAIM,
    boundNode: volume.binding?.node ?? "",
    context: { ...volume.context },
    secrets: secretsMessage(volume.secretRefs),
    labels: { ...volume.labels },
    policy: policyMessage(volume.policy),
    state: volumeStateMessage(volume.state),
    blocked: blockedMessage(volume.blocked),
    calls: callsOfVolume(volume).flatMap(
      ({ node, call, last }) => callMessage(call, { plugin: volume.plugin, node, last }) ?? [],
    ),
    lastError: errorOf(volume.attempts, volume.failure, volume.updatedAt, { plugin: volume.plugin }),
    condition: conditionMessage(volume.condition),
    health: healthMessages(volume),
    epoch: epochMessage(volume.epoch),
    holders: holders.slice(0, shown),
    holderCount: BigInt(holders.length),
    attachments: attachments.slice(0, shown).map((one) => attachmentMessage(volume, one)),
    attachmentCount: BigInt(attachments.length),
    bars: barMessages(volume),
    intent: intentMessage(volume.intent),
    expansion: expansionMessage(volume),
    modification: modificationMessage(volume),
    ephemeral: volume.ephemeral && { workload: volume.ephemeral.workload, alias: volume.ephemeral.alias },
    restore: restoreMessage(volume.restore),
    attempts: volume.attempts.count,
    nextTry: dateOf(volume.attempts.nextTry),
    revision: BigInt(rev),
    createdAt: dateOf(volume.createdAt),
    updatedAt: dateOf(volume.updatedAt),
    stateSince: dateOf(volume.stateSince),
    lastChange: { ...volume.changedBy, at: dateOf(volume.updatedAt) },
    deleteWanted: volume.goal === "absent",
    pluginVersion: volume.pluginVersion,
  };
};
