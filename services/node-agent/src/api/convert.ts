/** Messages of holdfast.internal.v1 ↔ orders and answers of the domain. */
import { compareEpochs, type Epoch, zeroEpoch } from "@holdfast/model/epoch";
import {
  HeldState,
  type InventoryResponse,
  type PublishRequest,
  type PublishResponse,
  type ReleaseRequest,
  type ReleaseResponse,
  StagingState,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  type DeepPartial,
  type Epoch as EpochMessage,
  VerificationScope,
} from "@holdfast/shared/gen/holdfast/v1/common";
import {
  accessModeFrom,
  accessModeMessage,
  attachmentModeFrom,
  attachmentModeMessage,
  epochMessage,
} from "@holdfast/shared/grpc/convert-model";
import type { Inventory, PublishResult, ReleaseResult } from "../domain/answer-types.ts";
import type { ClaimPhase, HeldClaim, StagePhase } from "../domain/types.ts";
import type { MountTable, PermitOrder, ReleaseOrder } from "../ports.ts";
import { type Checks, createChecks } from "./checks.ts";
import { expandMessage, owedGrowth } from "./convert-figures.ts";
import { vettingFrom } from "./convert-vetting.ts";
import { blockedMessage, callWords, healthMessage, refusedMessage, safeNumber } from "./convert-words.ts";

export function permitFrom({ permit, vetting }: PublishRequest): {
  readonly node: string;
  readonly order: PermitOrder;
} {
  const checks = createChecks();
  checks.that(permit !== undefined, "permit", "is required");
  if (permit === undefined) throw endOf(checks);
  checks.workload("permit.workload", permit.workload);
  checks.id("permit.alias", permit.alias);
  const subject = checkSubject(checks, "permit.", permit);
  const oldestLiveEpoch = epochFrom(checks, "permit.oldest_live_epoch", permit.oldestLiveEpoch);
  const older = compareEpochs(oldestLiveEpoch, subject.epoch) <= 0;
  checks.that(older, "permit.oldest_live_epoch", "is above the epoch of the permit, which lives itself");
  const accessMode = accessModeFrom(permit.accessMode);
  checks.that(accessMode !== "UNKNOWN", "permit.access_mode", "is required");
  const attachmentMode = attachmentModeFrom(permit.attachmentMode);
  checks.that(attachmentMode !== undefined, "permit.attachment_mode", "is required");
  checks.fsType("permit.fs_type", permit.fsType);
  checks.flags("permit.mount_flags", permit.mountFlags);
  if (attachmentMode === "BLOCK_DEVICE") {
    const bare = permit.fsType === "" && permit.mountFlags.length === 0 && permit.volumeMountGroup === "";
    checks.that(bare, "permit.attachment_mode", "a block device has no fs_type, mount_flags or volume_mount_group");
  }
  checks.map("permit.volume_context", permit.volumeContext);
  checks.map("permit.publish_context", permit.publishContext);
  checks.map("permit.stage_secrets", permit.stageSecrets);
  checks.map("permit.node_publish_secrets", permit.nodePublishSecrets);
  const growth = owedGrowth(checks, permit);
  const sender = vettingFrom(checks, "vetting", vetting);
  checks.end();
  const order: PermitOrder = {
    ref: subject.ref,
    vetting: sender,
    claim: {
      claimUid: permit.claimUid,
      workload: permit.workload,
      alias: permit.alias,
      nodeEpoch: subject.nodeEpoch,
      epoch: subject.epoch,
      oldestLiveEpoch,
      accessMode,
      attachmentMode: attachmentMode ?? "FILE_SYSTEM",
      readOnly: permit.readOnly,
      fsType: permit.fsType,
    },
    contents: {
      mountFlags: permit.mountFlags,
      volumeMountGroup: permit.volumeMountGroup,
      volumeContext: permit.volumeContext,
      publishContext: permit.publishContext,
      stageSecrets: permit.stageSecrets,
      publishSecrets: permit.nodePublishSecrets,
      ...growth,
      attempt: permit.attempt,
      ...(permit.wantsTokens ? { wantsTokens: true } : {}),
      ...(permit.republishMs === 0 ? {} : { republishMs: permit.republishMs }),
    },
  };
  return { node: permit.node, order };
}

export function releaseFrom(request: ReleaseRequest): { readonly node: string; readonly order: ReleaseOrder } {
  const checks = createChecks();
  const { ref, nodeEpoch, epoch } = checkSubject(checks, "", request);
  const vetting = vettingFrom(checks, "vetting", request.vetting);
  checks.end();
  const { node, claimUid, attempt } = request;
  return { node, order: { ref, claimUid, nodeEpoch, epoch, attempt, vetting } };
}

type Subject = Pick<
  ReleaseRequest,
  "namespace" | "volume" | "volumeUid" | "externalId" | "plugin" | "claimUid" | "node" | "nodeEpoch" | "epoch"
>;

function checkSubject(checks: Checks, prefix: string, message: Subject) {
  const { namespace, volume, volumeUid, externalId, plugin } = message;
  checks.id(`${prefix}namespace`, namespace);
  checks.id(`${prefix}volume`, volume);
  checks.text(`${prefix}volume_uid`, volumeUid);
  checks.text(`${prefix}external_id`, externalId);
  checks.text(`${prefix}plugin`, plugin);
  checks.text(`${prefix}claim_uid`, message.claimUid);
  checks.id(`${prefix}node`, message.node);
  const nodeEpoch = safeNumber(message.nodeEpoch);
  checks.that(nodeEpoch > 0, `${prefix}node_epoch`, "is required");
  const epoch = epochFrom(checks, `${prefix}epoch`, message.epoch);
  checks.that(compareEpochs(epoch, zeroEpoch) > 0, `${prefix}epoch`, "is required");
  return { ref: { namespace, volume, volumeUid, externalId, plugin }, nodeEpoch, epoch };
}

function endOf(checks: Checks): never {
  checks.end();
  throw new Error("a message without a permit passed its checks");
}

function epochFrom(checks: Checks, field: string, message: EpochMessage | undefined): Epoch {
  if (message === undefined) return zeroEpoch;
  const epoch = { gen: safeNumber(message.gen), ctr: safeNumber(message.ctr) };
  checks.that(epoch.gen >= 0 && epoch.ctr >= 0, field, "is above 2^53");
  return epoch;
}

/** -1 for what JavaScript cannot hold exactly; no such number was ever granted. */
export const scopeMessage = (scope: MountTable["scope"]): VerificationScope =>
  scope === "host" ? VerificationScope.VERIFICATION_SCOPE_HOST : VerificationScope.VERIFICATION_SCOPE_OWN_NAMESPACE;

export function publishMessage(
  result: PublishResult,
  scope: MountTable["scope"],
  now: Date,
): DeepPartial<PublishResponse> {
  switch (result.kind) {
    case "published": {
      const { hostPath, mountId, device, epoch, expansion } = result;
      const published = {
        hostPath,
        mountId: BigInt(mountId),
        verificationScope: scopeMessage(scope),
        epoch: epochMessage(epoch),
        device,
        expansion: expansion === undefined ? undefined : expandMessage(expansion, now),
      };
      return { published };
    }
    case "not-mounted": {
      const { failure, message, epoch, health } = result;
      return {
        notMounted: {
          ...callWords(failure),
          reason: failure.reason,
          message,
          epoch: epochMessage(epoch),
          health: healthMessage(health),
        },
      };
    }
    case "refused":
      return { refused: refusedMessage(result) };
    case "uncertain": {
      const { halt } = result;
      return {
        uncertain: {
          ...callWords(halt),
          reason: halt.reason,
          message: halt.message,
          blocked: blockedMessage(halt, now),
          health: healthMessage(result.health),
        },
      };
    }
  }
}

export function releaseMessage(
  result: ReleaseResult,
  scope: MountTable["scope"],
  now: Date,
): DeepPartial<ReleaseResponse> {
  switch (result.kind) {
    case "released":
      return {
        released: {
          epoch: epochMessage(result.epoch),
          verificationScope: scopeMessage(scope),
          unmounted: [...(result.unmounted ?? [])],
        },
      };
    case "refused":
      return { refused: refusedMessage(result) };
    case "pending": {
      const { halt } = result;
      const holder =
        halt.holder?.pid === undefined
          ? undefined
          : { pid: BigInt(halt.holder.pid), command: halt.holder.command ?? "", path: halt.holder.path };
      const blocked = halt.blocked !== undefined;
      const block = blockedMessage(halt, now);
      return { pending: { ...callWords(halt), reason: halt.reason, message: halt.message, blocked, holder, block } };
    }
  }
}

const stagingStates: Record<StagePhase, StagingState> = {
  unstaged: StagingState.STAGING_STATE_NONE,
  staging: StagingState.STAGING_STATE_STAGING,
  unsure: StagingState.STAGING_STATE_STAGING,
  staged: StagingState.STAGING_STATE_STAGED,
  unstaging: StagingState.STAGING_STATE_UNSTAGING,
};

const heldStates: Record<ClaimPhase, HeldState> = {
  permitted: HeldState.HELD_STATE_PERMITTED,
  publishing: HeldState.HELD_STATE_PUBLISHING,
  unsure: HeldState.HELD_STATE_PUBLISHING,
  published: HeldState.HELD_STATE_PUBLISHED,
  unpublishing: HeldState.HELD_STATE_UNPUBLISHING,
  gone: HeldState.HELD_STATE_GONE,
};

export function inventoryVolumeMessage(
  { state, halt }: Inventory["volumes"][number],
  now: Date,
): DeepPartial<InventoryResponse> {
  const released = state.dead
    .filter(({ late }) => late)
    .map(({ claimUid, epoch }) => ({
      claimUid,
      epoch: epochMessage(epoch),
      state: HeldState.HELD_STATE_RELEASED,
      target: "",
      workload: "",
      alias: "",
    }));
  return {
    volume: {
      ...state.ref,
      stagingState: stagingStates[state.stage.phase],
      floor: epochMessage(state.floor),
      held: [...Object.values(state.claims).map(heldMessage), ...released],
      deadCount: state.dead.length,
      blocked: halt === undefined ? undefined : blockedMessage(halt, now),
    },
  };
}

function heldMessage({ facts, phase, goal, mountId }: HeldClaim) {
  const { claimUid, target, workload, alias, readOnly, fsType } = facts;
  return {
    claimUid,
    epoch: epochMessage(facts.epoch),
    state: heldStates[phase],
    target,
    workload,
    alias,
    accessMode: accessModeMessage(facts.accessMode),
    attachmentMode: attachmentModeMessage(facts.attachmentMode),
    readOnly,
    fsType,
    nodeEpoch: BigInt(facts.nodeEpoch),
    mountId: BigInt(mountId),
    releasing: goal === "released",
  };
}
