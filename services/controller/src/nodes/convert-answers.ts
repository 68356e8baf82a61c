/** What agents answer to orders → words of the domain. Generated types go no further than this folder. */

import { compareEpochs, type Epoch, showEpoch } from "@holdfast/model/epoch";
import { wholeNumber } from "@holdfast/model/whole-number";
import type {
  Pending,
  PublishResponse,
  Refused,
  ReleaseResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { Blocked as WireBlocked, Epoch as WireEpoch } from "@holdfast/shared/gen/holdfast/v1/common";
import { scrub } from "@holdfast/shared/grpc/redact";
import type { AgentBlock } from "../domain/blocked.ts";
import { isOfAnotherTime, type PublishAnswer, type ReleaseAnswer } from "../domain/claim/permit.ts";
import type { Ending } from "../domain/outcome.ts";
import { epochFrom } from "./convert.ts";
import { growAnswer, healthFrom } from "./convert-figures.ts";
import { refusalWord } from "./refusal-word.ts";

const refused = ({ reason, message, holderClaimUid }: Refused, sensitive: readonly string[]) => {
  const holder = holderClaimUid === "" ? "" : ` (claim ${holderClaimUid})`;
  return { kind: "refused" as const, reason: refusalWord(reason), message: `${scrub(message, sensitive)}${holder}` };
};

/** The call that the agent made, and the status that it got. */
const call = ({ csiMethod, csiCode }: Pick<Pending, "csiMethod" | "csiCode">): Pick<Ending, "method" | "code"> => ({
  ...(csiMethod === "" ? {} : { method: csiMethod }),
  ...(csiCode === "" ? {} : { code: csiCode }),
});

/** An answer about another epoch proves nothing about this one. */
const otherEpoch = (asked: Epoch, answered: WireEpoch | undefined): string | undefined => {
  const got = epochFrom(answered);
  return compareEpochs(asked, got) === 0
    ? undefined
    : `the agent answered for epoch ${showEpoch(got)} and was asked about ${showEpoch(asked)}`;
};

export const publishAnswer = (
  asked: Epoch,
  { published, notMounted, refused: stale, uncertain }: PublishResponse,
  sensitive: readonly string[],
): PublishAnswer => {
  if (published !== undefined) {
    const wrong = otherEpoch(asked, published.epoch);
    if (wrong !== undefined || published.hostPath === "") return senseless(wrong ?? "the agent named no host path");
    const { hostPath, mountId, device } = published;
    return {
      kind: "published",
      publication: {
        hostPath,
        mountId: Number(mountId),
        ...(device === undefined ? {} : { device: { major: device.major, minor: device.minor } }),
      },
      ...(device?.sizeBytes === undefined ? {} : { deviceBytes: wholeNumber(device.sizeBytes) }),
      ...(published.expansion === undefined ? {} : { growth: growAnswer(published.expansion, sensitive) }),
    };
  }
  if (notMounted !== undefined) {
    const wrong = otherEpoch(asked, notMounted.epoch);
    if (wrong !== undefined) return senseless(wrong);
    const { reason, message, health } = notMounted;
    const why = { reason, message: scrub(message, sensitive), ...call(notMounted) };
    return { kind: "not-mounted", ...why, ...healthFrom(health, sensitive) };
  }
  if (stale !== undefined && isOfAnotherTime(refusalWord(stale.reason)))
    return { kind: "uncertain", reason: refusalWord(stale.reason), message: stale.message };
  if (stale !== undefined) return refused(stale, sensitive);
  if (uncertain !== undefined) {
    const { reason, message, blocked, health } = uncertain;
    const needs = blocked === undefined || blocked.clearWith === "" ? "" : `; ${blocked.clearWith}`;
    const answer = {
      kind: "uncertain" as const,
      reason,
      message: `${scrub(message, sensitive)}${needs}`,
      ...call(uncertain),
      ...healthFrom(health, sensitive),
    };
    const block = blocked && agentBlock(blocked, sensitive);
    return block === undefined ? answer : { ...answer, blocked: block };
  }
  return senseless("the agent's answer says nothing that this version understands");
};

const senseless = (message: string) => ({ kind: "uncertain" as const, reason: "INTERNAL", message });

/** An agent that sends its block names the holder there. */
const heldBy = ({ holder, block }: Pending): string =>
  holder === undefined || block !== undefined
    ? ""
    : `; held by process ${holder.pid} (${holder.command}) at ${holder.path}`;

const agentBlock = (
  { reason, missingProof, clearWith }: WireBlocked,
  sensitive: readonly string[],
): AgentBlock | undefined =>
  reason === "" ? undefined : { reason, missingProof: scrub(missingProof, sensitive), clearWith };

export const releaseAnswer = (asked: Epoch, { released, pending, refused: stale }: ReleaseResponse): ReleaseAnswer => {
  if (released !== undefined) {
    const wrong = otherEpoch(asked, released.epoch);
    if (wrong !== undefined) return { kind: "pending", reason: "INTERNAL", message: wrong, blocked: false };
    return { kind: "released", ...(released.unmounted.length === 0 ? {} : { unmounted: released.unmounted }) };
  }
  if (pending !== undefined) {
    const block = pending.block && agentBlock(pending.block, []);
    return {
      kind: "pending",
      reason: pending.reason,
      message: `${pending.message}${heldBy(pending)}`,
      blocked: pending.blocked,
      ...call(pending),
      ...(block === undefined ? {} : { block }),
    };
  }
  if (stale !== undefined && isOfAnotherTime(refusalWord(stale.reason)))
    return { kind: "pending", reason: refusalWord(stale.reason), message: stale.message, blocked: false };
  if (stale !== undefined) return refused(stale, []);
  return {
    kind: "pending",
    reason: "INTERNAL",
    message: "the agent's answer says nothing that this version understands",
    blocked: false,
  };
};
