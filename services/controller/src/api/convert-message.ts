/** What the messages of several services share ↔ the domain. */
import {
  VerificationScope,
  type Blocked as WireBlocked,
  type CallUnderWay as WireCall,
  type VolumeCapability as WireCapability,
  type VolumeCondition as WireCondition,
  type VolumeHealthView as WireHealthView,
  type LastError as WireLastError,
} from "@holdfast/shared/gen/holdfast/v1/common";
import {
  accessModeFrom,
  accessModeMessage,
  attachmentModeFrom,
  attachmentModeMessage,
} from "@holdfast/shared/grpc/convert-model";
import type { CallUnderWay } from "../domain/call-under-way.ts";
import type { Attempts, Blocked, Ending, LastError } from "../domain/outcome.ts";
import type { VolumeCapability, VolumeRecord } from "../domain/volume/volume.ts";
import { nodeOfSide, sidesOf } from "../domain/volume/volume-health.ts";
import type { VolumeCondition } from "../domain/volume/volume-sample.ts";
import type { Checks } from "./check-request.ts";

/** Wall-clock milliseconds; 0 and undefined are "not". */
export const dateOf = (ms: number | undefined): Date | undefined =>
  ms === undefined || ms === 0 ? undefined : new Date(ms);

export const capabilityMessage = (capability: VolumeCapability): WireCapability => ({
  attachmentMode: attachmentModeMessage(capability.attachmentMode),
  accessMode: accessModeMessage(capability.accessMode),
  fsType: capability.fsType,
  mountFlags: [...capability.mountFlags],
  volumeMountGroup: capability.volumeMountGroup,
});

/** The domain has no word for "no attachment mode", so that its absence is told here. */
export const capabilityFrom = (field: string, wire: WireCapability, checks: Checks): VolumeCapability => {
  const attachmentMode = attachmentModeFrom(wire.attachmentMode);
  if (attachmentMode === undefined) checks.complain(`${field}.attachment_mode`, "is required");
  return {
    attachmentMode: attachmentMode ?? "FILE_SYSTEM",
    accessMode: accessModeFrom(wire.accessMode),
    fsType: wire.fsType,
    mountFlags: [...wire.mountFlags],
    volumeMountGroup: wire.volumeMountGroup,
  };
};

export const blockedMessage = (blocked: Blocked | undefined): WireBlocked | undefined =>
  blocked === undefined
    ? undefined
    : {
        since: dateOf(blocked.since),
        reason: blocked.reason,
        message: blocked.message,
        missingProof: blocked.missingProof,
        clearWith: blocked.clearWith,
      };

export const conditionMessage = (condition: VolumeCondition | undefined): WireCondition | undefined =>
  condition && { abnormal: condition.abnormal, message: condition.message };

export const healthMessages = (volume: Pick<VolumeRecord, "health">): WireHealthView[] =>
  sidesOf(volume).map(([side, { since, entries }]) => ({
    node: nodeOfSide(side),
    since: dateOf(since),
    entries: entries.map((entry) => ({ ...entry })),
  }));

/** What the failed call was for. */
export interface ErrorSubject {
  readonly plugin: string;
  readonly node?: string;
}

export const lastErrorMessage = (
  error: LastError | undefined,
  { plugin, node = "" }: ErrorSubject,
): WireLastError | undefined =>
  error === undefined
    ? undefined
    : {
        reason: error.reason,
        message: error.message,
        csiMethod: error.method ?? "",
        csiCode: error.code ?? "",
        at: dateOf(error.at),
        traceId: error.traceId ?? "",
        plugin,
        node,
        attempt: error.attempt ?? 0,
      };

/** `last`: what the attempt before it was answered. */
export const callMessage = (
  call: CallUnderWay | undefined,
  { plugin, node, last }: { readonly plugin: string; readonly node: string; readonly last: LastError | undefined },
): WireCall | undefined =>
  call && {
    method: call.method,
    plugin,
    instance: call.instance,
    node,
    since: dateOf(call.since),
    deadline: dateOf(call.deadline),
    attempt: call.attempt,
    lastAnswer: lastErrorMessage(last, { plugin, node }),
  };

/** The last attempt that failed; for what failed for good, at least its reason. */
export const errorOf = (
  attempts: Attempts,
  failure: Ending | undefined,
  at: number,
  subject: ErrorSubject,
): WireLastError | undefined =>
  lastErrorMessage(attempts.lastError ?? (failure === undefined ? undefined : { ...failure, at }), subject);

export const scopeMessage = (scope: "host" | "own-namespace" | undefined): VerificationScope => {
  switch (scope) {
    case undefined:
      return VerificationScope.VERIFICATION_SCOPE_UNSPECIFIED;
    case "host":
      return VerificationScope.VERIFICATION_SCOPE_HOST;
    case "own-namespace":
      return VerificationScope.VERIFICATION_SCOPE_OWN_NAMESPACE;
  }
};
