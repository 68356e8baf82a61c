/** Claims: messages of holdfast.v1 ↔ what the workloads know of them. */
import {
  type Claim,
  type ClaimSpec,
  ClaimState,
  type DeepPartial,
  VolumeTemplate,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Topology } from "@holdfast/shared/gen/holdfast/v1/common";
import {
  accessModeFrom,
  accessModeMessage,
  attachmentModeFrom,
  attachmentModeMessage,
  epochMessage,
} from "@holdfast/shared/grpc/convert-model";
import type { ClaimPhaseSeen, ClaimSeen, Template, WantedClaim } from "./controller-claims.ts";

const claimStates: Readonly<Record<ClaimPhaseSeen, ClaimState>> = {
  QUEUED: ClaimState.CLAIM_STATE_QUEUED,
  ATTACHING: ClaimState.CLAIM_STATE_ATTACHING,
  OFFERED: ClaimState.CLAIM_STATE_OFFERED,
  ACTIVE: ClaimState.CLAIM_STATE_ACTIVE,
  RELEASING: ClaimState.CLAIM_STATE_RELEASING,
  DETACHING: ClaimState.CLAIM_STATE_DETACHING,
  RELEASED: ClaimState.CLAIM_STATE_RELEASED,
  FAILED: ClaimState.CLAIM_STATE_FAILED,
  FENCED: ClaimState.CLAIM_STATE_FENCED,
};

/** Undefined for a number that this version does not know. */
const claimStateFrom = (message: number): ClaimPhaseSeen | undefined =>
  (Object.keys(claimStates) as ClaimPhaseSeen[]).find((state) => claimStates[state] === message);

const millis = (date: Date | undefined): number => date?.getTime() ?? 0;

export const claimSeenFrom = (claim: Claim): ClaimSeen => {
  const { epoch, device, blocked, lastError, degradedSince } = claim;
  return {
    namespace: claim.namespace,
    workload: claim.workload,
    uid: claim.uid,
    alias: claim.alias,
    volume: claim.volume,
    // A state of a newer controller is one that has not settled.
    state: claimStateFrom(claim.state) ?? "QUEUED",
    accessMode: accessModeFrom(claim.accessMode),
    attachmentMode: attachmentModeFrom(claim.attachmentMode) ?? "FILE_SYSTEM",
    readOnly: claim.readOnly,
    fsType: claim.fsType,
    hostPath: claim.hostPath,
    waitingFor: claim.waitingFor,
    ...(epoch === undefined ? {} : { epoch: { gen: Number(epoch.gen), ctr: Number(epoch.ctr) } }),
    ...(device === undefined ? {} : { device }),
    ...(degradedSince === undefined ? {} : { degradedSince: millis(degradedSince) }),
    ...(blocked === undefined ? {} : { blocked: { ...blocked, since: millis(blocked.since) } }),
    ...(lastError === undefined
      ? {}
      : {
          failure: {
            reason: lastError.reason,
            message: lastError.message,
            method: lastError.csiMethod,
            code: lastError.csiCode,
            at: millis(lastError.at),
          },
        }),
  };
};

const sorted = <T>(map: { readonly [key: string]: T }): { [key: string]: T } =>
  Object.fromEntries(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)));

const placesInOrder = (places: readonly Topology[]): Topology[] =>
  places.map(({ segments }) => ({ segments: sorted(segments) }));

/** A repeat is the same request in whatever order its maps come. */
export const templateText = (template: VolumeTemplate): Template => {
  const { parameters, mutableParameters, labels, secrets, topology } = template;
  const inOrder: VolumeTemplate = {
    ...template,
    parameters: sorted(parameters),
    mutableParameters: sorted(mutableParameters),
    labels: sorted(labels),
    secrets: sorted(secrets),
    topology: topology && {
      required: placesInOrder(topology.required),
      preferred: placesInOrder(topology.preferred),
    },
  };
  return Buffer.from(VolumeTemplate.encode(inOrder).finish()).toString("base64");
};

export const claimSpecMessage = (wanted: WantedClaim): DeepPartial<ClaimSpec> => {
  const { volume, alias, readOnly, capability, template } = wanted;
  // With a template the controller names the volume.
  const asked =
    template === undefined
      ? { volume }
      : { volume: "", template: VolumeTemplate.decode(Buffer.from(template, "base64")) };
  return { ...asked, alias, readOnly, ...capabilityPart(capability) };
};

const capabilityPart = (capability: WantedClaim["capability"]): DeepPartial<ClaimSpec> => ({
  ...(capability === undefined
    ? {}
    : {
        capability: {
          attachmentMode: attachmentModeMessage(capability.attachmentMode),
          accessMode: accessModeMessage(capability.accessMode),
          fsType: capability.fsType,
          mountFlags: [...capability.mountFlags],
          volumeMountGroup: capability.volumeMountGroup,
        },
      }),
});

export const claimMessage = (claim: ClaimSeen, node: string): DeepPartial<Claim> => {
  const { epoch, blocked, failure, degradedSince } = claim;
  return {
    namespace: claim.namespace,
    volume: claim.volume,
    workload: claim.workload,
    alias: claim.alias,
    uid: claim.uid,
    node,
    accessMode: accessModeMessage(claim.accessMode),
    attachmentMode: attachmentModeMessage(claim.attachmentMode),
    readOnly: claim.readOnly,
    fsType: claim.fsType,
    state: claimStates[claim.state],
    hostPath: claim.hostPath,
    waitingFor: claim.waitingFor,
    epoch: epoch && epochMessage(epoch),
    device: claim.device,
    degradedSince: degradedSince === undefined ? undefined : new Date(degradedSince),
    blocked: blocked === undefined ? undefined : { ...blocked, since: new Date(blocked.since) },
    lastError:
      failure === undefined
        ? undefined
        : {
            reason: failure.reason,
            message: failure.message,
            csiMethod: failure.method,
            csiCode: failure.code,
            at: new Date(failure.at),
          },
  };
};
