/** Expand and Stats: messages of holdfast.internal.v1 ↔ orders and answers of the domain. */

import type { VolumeUse } from "@holdfast/model/volume-use";
import type {
  ExpandRequest,
  ExpandResponse,
  Permit,
  StatsRequest,
  VolumeStats,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  type CapacityRange as CapacityRangeMessage,
  type DeepPartial,
  UsageUnit,
  type VolumeCapability,
} from "@holdfast/shared/gen/holdfast/v1/common";
import { accessModeFrom, attachmentModeFrom } from "@holdfast/shared/grpc/convert-model";
import type { ExpandResult } from "../domain/answer-types.ts";
import type { CapacityRange, ExpandOrder, VolumeMeasure } from "../domain/volume-figures.ts";
import { type Checks, createChecks } from "./checks.ts";
import { vettingFrom } from "./convert-vetting.ts";
import { blockedMessage, callWords, healthMessage, refusedMessage, safeNumber } from "./convert-words.ts";

const maxVolumes = 500;

export function expandFrom(request: ExpandRequest): { readonly node: string; readonly order: ExpandOrder } {
  const checks = createChecks();
  const { namespace, volume, volumeUid, externalId, plugin, node } = request;
  checks.id("namespace", namespace);
  checks.id("volume", volume);
  checks.text("volume_uid", volumeUid);
  checks.text("external_id", externalId);
  checks.text("plugin", plugin);
  checks.id("node", node);
  const nodeEpoch = safeNumber(request.nodeEpoch);
  checks.that(nodeEpoch > 0, "node_epoch", "is required");
  const capacity = rangeFrom(checks, "capacity", request.capacity);
  const usedAs = request.capability === undefined ? undefined : usedAsFrom(checks, request.capability);
  checks.map("node_expand_secrets", request.nodeExpandSecrets);
  const vetting = vettingFrom(checks, "vetting", request.vetting);
  checks.end();
  const ref = { namespace, volume, volumeUid, externalId, plugin };
  const attempt = request.attempt === 0 ? {} : { attempt: request.attempt };
  return { node, order: { ref, nodeEpoch, capacity, usedAs, secrets: request.nodeExpandSecrets, vetting, ...attempt } };
}

/** What a permit says of growth that is owed. */
export function owedGrowth(checks: Checks, { expandTo, nodeExpandSecrets }: Permit) {
  checks.map("permit.node_expand_secrets", nodeExpandSecrets);
  const capacity = rangeFrom(checks, "permit.expand_to", expandTo);
  return capacity === undefined ? {} : { expandTo: capacity, expandSecrets: nodeExpandSecrets };
}

function rangeFrom(
  checks: Checks,
  field: string,
  message: CapacityRangeMessage | undefined,
): CapacityRange | undefined {
  if (message === undefined) return undefined;
  const { requiredBytes, limitBytes } = message;
  checks.that(requiredBytes >= 0n, `${field}.required_bytes`, "is negative");
  checks.that(limitBytes >= 0n, `${field}.limit_bytes`, "is negative");
  // "At least one of the these fields MUST be specified."
  checks.that(requiredBytes > 0n || limitBytes > 0n, field, "has neither required_bytes nor limit_bytes");
  checks.that(limitBytes === 0n || limitBytes >= requiredBytes, `${field}.limit_bytes`, "is below required_bytes");
  return { requiredBytes, limitBytes };
}

function usedAsFrom(checks: Checks, message: VolumeCapability): VolumeUse {
  const { fsType, mountFlags, volumeMountGroup } = message;
  const accessMode = accessModeFrom(message.accessMode);
  checks.that(accessMode !== "UNKNOWN", "capability.access_mode", "is required");
  const attachmentMode = attachmentModeFrom(message.attachmentMode);
  checks.that(attachmentMode !== undefined, "capability.attachment_mode", "is required");
  checks.fsType("capability.fs_type", fsType);
  checks.flags("capability.mount_flags", mountFlags);
  return {
    accessMode,
    attachmentMode: attachmentMode ?? "FILE_SYSTEM",
    fsType,
    mountFlags,
    volumeMountGroup,
  };
}

export function expandMessage(result: ExpandResult, now: Date): DeepPartial<ExpandResponse> {
  switch (result.kind) {
    case "expanded":
      return { expanded: { capacityBytes: result.capacityBytes, deviceBytes: result.deviceBytes } };
    case "not-expanded": {
      const { failure, message } = result;
      return { notExpanded: { ...callWords(failure), reason: failure.reason, message } };
    }
    case "refused":
      return { refused: refusedMessage(result) };
    case "uncertain": {
      const { halt } = result;
      const { reason, message } = halt;
      return { uncertain: { ...callWords(halt), reason, message, blocked: blockedMessage(halt, now) } };
    }
  }
}

/** Undefined: all that are published here. */
export function statsFrom({ volumeUids }: StatsRequest): readonly string[] | undefined {
  const checks = createChecks();
  const count = volumeUids.length;
  checks.that(count <= maxVolumes, "volume_uids", `has ${count} entries, ${maxVolumes} are allowed`);
  for (const [at, uid] of volumeUids.entries()) checks.text(`volume_uids[${at}]`, uid);
  checks.end();
  return count === 0 ? undefined : volumeUids;
}

const usageUnits = { bytes: UsageUnit.USAGE_UNIT_BYTES, inodes: UsageUnit.USAGE_UNIT_INODES } as const;

export function statsMessage(
  volumeUid: string,
  measure: VolumeMeasure | undefined,
  now: Date,
): DeepPartial<VolumeStats> {
  if (measure === undefined) {
    const message = `nothing of volume ${volumeUid} is published on this node`;
    return { volumeUid, error: { reason: "VOLUME_NOT_HERE", message, at: now } };
  }
  const { figures, measuredAt, error } = measure;
  return {
    volumeUid,
    usage: figures.usage.map(({ unit, ...amounts }) => ({ unit: usageUnits[unit], ...amounts })),
    condition: figures.condition,
    measuredAt: measuredAt === undefined ? undefined : new Date(measuredAt),
    error: error && { ...callWords(error), reason: error.reason, message: error.message, at: new Date(error.at) },
    health: healthMessage(measure.health),
  };
}
