/** Expand and Stats: what agents are told and answer. Generated types go no further than this folder. */

import { isVolumeHealthStatus, type VolumeHealthEntry } from "@holdfast/model/health";
import { wholeNumber } from "@holdfast/model/whole-number";
import type {
  DeepPartial,
  ExpandRequest,
  ExpandResponse,
  VolumeStats,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { type CapacityRange, UsageUnit, type VolumeHealth } from "@holdfast/shared/gen/holdfast/v1/common";
import { accessModeMessage, attachmentModeMessage } from "@holdfast/shared/grpc/convert-model";
import { scrub } from "@holdfast/shared/grpc/redact";
import type { GrowOrder } from "../agent-ports.ts";
import type { Failure } from "../domain/outcome.ts";
import type { SizeRange } from "../domain/size/expansion.ts";
import type { GrowAnswer } from "../domain/size/growth-change.ts";
import type { VolumeSample, VolumeUsage } from "../domain/volume/volume-sample.ts";
import { refusalWord } from "./refusal-word.ts";

export const rangeMessage = ({ required, limit }: SizeRange): CapacityRange => ({
  requiredBytes: BigInt(required),
  limitBytes: BigInt(limit),
});

export const expandMessage = (
  node: string,
  { volume, claim, nodeEpoch, capacity }: GrowOrder,
  secrets: Readonly<Record<string, string>>,
  attempt: number,
): DeepPartial<ExpandRequest> => ({
  namespace: volume.namespace,
  volume: volume.id,
  volumeUid: volume.uid,
  externalId: volume.externalId,
  plugin: volume.plugin,
  node,
  nodeEpoch: BigInt(nodeEpoch),
  capacity: rangeMessage(capacity),
  // Optional, and of no use to a plugin without the mode.
  capability:
    claim.accessMode === "UNKNOWN"
      ? undefined
      : {
          accessMode: accessModeMessage(claim.accessMode),
          attachmentMode: attachmentModeMessage(claim.attachmentMode),
          fsType: claim.fsType,
          mountFlags: [...claim.mountFlags],
          volumeMountGroup: claim.volumeMountGroup,
        },
  nodeExpandSecrets: { ...secrets },
  attempt,
});

interface CallWords {
  readonly reason: string;
  readonly message: string;
  readonly csiMethod: string;
  readonly csiCode: string;
}

const failureOf = (words: CallWords, advice: Failure["advice"], sensitive: readonly string[]): Failure => ({
  reason: words.reason,
  message: scrub(words.message, sensitive),
  advice,
  ...(words.csiMethod === "" ? {} : { method: words.csiMethod }),
  ...(words.csiCode === "" ? {} : { code: words.csiCode }),
});

const notHere = "VOLUME_NOT_HERE";

export const growAnswer = (
  { expanded, notExpanded, refused, uncertain }: ExpandResponse,
  sensitive: readonly string[],
): GrowAnswer => {
  if (expanded !== undefined) {
    const { capacityBytes, deviceBytes } = expanded;
    const device = deviceBytes === undefined ? {} : { deviceBytes: Number(deviceBytes) };
    return { kind: "grown", capacity: wholeNumber(capacityBytes), ...device };
  }
  if (notExpanded !== undefined)
    return notExpanded.reason === notHere
      ? { kind: "not-here", failure: failureOf(notExpanded, "again", sensitive) }
      : { kind: "refused", failure: failureOf(notExpanded, "fail", sensitive) };
  // A stale order: nothing was called. It is sent with the node's new epoch.
  if (refused !== undefined)
    return {
      kind: "not-here",
      failure: { reason: refusalWord(refused.reason), message: scrub(refused.message, sensitive), advice: "again" },
    };
  if (uncertain === undefined)
    return {
      kind: "unknown",
      failure: {
        reason: "INTERNAL",
        message: "the agent's answer says nothing that this version understands",
        advice: "again",
      },
    };
  // "FAILED_PRECONDITION: the CO MUST NOT retry" while the volume is published as it is: an answer, and no doubt.
  if (uncertain.csiCode === "FAILED_PRECONDITION")
    return { kind: "refused", failure: failureOf(uncertain, "block", sensitive) };
  const advice = uncertain.blocked === undefined ? "again" : "block";
  return { kind: "unknown", failure: failureOf(uncertain, advice, sensitive) };
};

const units: Readonly<Record<number, VolumeUsage["unit"]>> = {
  [UsageUnit.USAGE_UNIT_BYTES]: "bytes",
  [UsageUnit.USAGE_UNIT_INODES]: "inodes",
};

/** An agent is trusted with the words of its plugins; what is no status of ours nor UNRECOGNISED(n) is left out. */
export const healthFrom = (
  health: VolumeHealth | undefined,
  sensitive: readonly string[],
): { readonly health?: readonly VolumeHealthEntry[] } => {
  if (health === undefined) return {};
  const entries = health.entries.flatMap(({ status, reason, message }) =>
    isVolumeHealthStatus(status) ? [{ status, reason, message: scrub(message, sensitive) }] : [],
  );
  return { health: entries };
};

export const sampleFrom = ({ volumeUid, usage, condition, measuredAt, error, health }: VolumeStats): VolumeSample => ({
  volumeUid,
  usage: usage.flatMap(({ unit, total, used, available }) => {
    const word = units[unit];
    return word === undefined ? [] : [{ unit: word, total, used, available }];
  }),
  ...(condition === undefined ? {} : { condition: { abnormal: condition.abnormal, message: condition.message } }),
  ...healthFrom(health, []),
  ...(measuredAt === undefined ? {} : { measuredAt: measuredAt.getTime() }),
  ...(error === undefined
    ? {}
    : {
        error: {
          reason: error.reason,
          message: error.message,
          at: error.at?.getTime() ?? 0,
          ...(error.csiMethod === "" ? {} : { method: error.csiMethod }),
          ...(error.csiCode === "" ? {} : { code: error.csiCode }),
        },
      }),
});
