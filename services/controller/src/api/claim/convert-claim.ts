/** Claims: messages of holdfast.v1 ↔ the commands' words. */
import { traceIdOf } from "@holdfast/model/trace-id";
import {
  type ReconcileWorkloadsResponse,
  type Claim as WireClaim,
  ClaimState as WireClaimState,
  type ClaimFilter as WireFilter,
  type ClaimSpec as WireSpec,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Queueing } from "@holdfast/shared/gen/holdfast/v1/common";
import { accessModeMessage, attachmentModeMessage, epochMessage } from "@holdfast/shared/grpc/convert-model";
import type {
  ClaimFilter,
  ClaimSelection,
  ClaimSpec,
  ClaimView,
  CreateClaimsInput,
  ReconciledWorkloads,
} from "../../commands/model.ts";
import {
  blockOfClaim,
  type Claim,
  type ClaimState,
  type ClaimTombstone,
  claimStates,
  degradedOf,
  type Publication,
} from "../../domain/claim/claim.ts";
import { callOfClaim } from "../../domain/volume/long-calls.ts";
import { type Checks, durationMs, optionalId, optionalWorkload } from "../check-request.ts";
import { blockedMessage, callMessage, capabilityFrom, dateOf, errorOf } from "../convert-message.ts";
import { templateFrom } from "./convert-template.ts";

export const claimStateMessage = (state: ClaimState): WireClaimState => WireClaimState[`CLAIM_STATE_${state}`];

export const claimStatesFrom = (
  field: string,
  wire: readonly WireClaimState[],
  checks: Checks,
): readonly ClaimState[] =>
  wire.flatMap((one, i) => {
    const state = claimStates.find((known) => claimStateMessage(known) === one);
    if (state === undefined) checks.complain(`${field}[${i}]`, "is no state of a claim");
    return state ?? [];
  });

const none = {
  epoch: undefined,
  hostPath: "",
  device: undefined,
  degradedSince: undefined,
  degradedReason: "",
  call: undefined,
  blocked: undefined,
  waitingFor: "",
  after: "",
  queueDeadline: undefined,
  attempts: 0,
  nextTry: undefined,
  traceparent: "",
  traceId: "",
  activeAt: undefined,
  revision: 0n,
} satisfies Partial<WireClaim>;

const deviceMessage = ({ hostPath, device }: Publication): WireClaim["device"] => {
  if (device === undefined) return undefined;
  const { size, ...number } = device;
  return { path: hostPath, ...number, ...(size === undefined ? {} : { sizeBytes: BigInt(size.bytes) }) };
};

const living = (claim: Claim, view: Extract<ClaimView, { kind: "living" }>): WireClaim => {
  const { publication, attempts } = claim;
  const degraded = degradedOf(claim);
  return {
    namespace: view.volume.namespace,
    volume: view.volume.id,
    workload: claim.workload,
    alias: claim.alias,
    uid: claim.uid,
    node: claim.node,
    accessMode: accessModeMessage(claim.accessMode),
    attachmentMode: attachmentModeMessage(claim.attachmentMode),
    readOnly: claim.readOnly,
    fsType: claim.fsType,
    mountFlags: [...claim.mountFlags],
    volumeMountGroup: claim.volumeMountGroup,
    state: claimStateMessage(claim.state),
    epoch: claim.epoch === undefined ? undefined : epochMessage(claim.epoch),
    hostPath: publication?.hostPath ?? "",
    device: publication && deviceMessage(publication),
    degradedSince: dateOf(degraded?.since),
    degradedReason: degraded?.reason ?? "",
    call: callMessage(callOfClaim(view.volume, claim), {
      ...{ plugin: view.volume.plugin, node: claim.node, last: attempts.lastError },
    }),
    blocked: blockedMessage(blockOfClaim(claim)),
    waitingFor: view.waitingFor,
    after: claim.after ?? "",
    queueDeadline: claim.state === "QUEUED" ? dateOf(claim.queueDeadline) : undefined,
    attempts: attempts.count,
    nextTry: dateOf(attempts.nextTry),
    lastError: errorOf(attempts, claim.failure, claim.updatedAt, { plugin: view.volume.plugin, node: claim.node }),
    traceparent: claim.trace?.parent ?? "",
    traceId: traceIdOf(claim.trace?.parent) ?? "",
    createdAt: dateOf(claim.createdAt),
    stateSince: dateOf(claim.stateSince),
    activeAt: dateOf(claim.activeAt),
    revision: BigInt(view.rev),
  };
};

const over = (claim: ClaimTombstone): WireClaim => ({
  ...none,
  namespace: claim.namespace,
  volume: claim.volume,
  workload: claim.workload,
  alias: claim.alias,
  uid: claim.uid,
  node: claim.node,
  accessMode: accessModeMessage(claim.accessMode),
  attachmentMode: attachmentModeMessage(claim.attachmentMode),
  readOnly: claim.readOnly,
  fsType: "",
  mountFlags: [],
  volumeMountGroup: "",
  state: claimStateMessage(claim.state),
  lastError: errorOf({ count: 0, nextTry: 0 }, claim.failure, claim.endedAt, {
    plugin: claim.plugin ?? "",
    node: claim.node,
  }),
  createdAt: dateOf(claim.createdAt),
  stateSince: dateOf(claim.endedAt),
});

export const claimMessage = (view: ClaimView): WireClaim =>
  view.kind === "living" ? living(view.claim, view) : over(view.claim);

/** A claim that brings its volume is for the volume that its key names. */
export const withTemplate = (
  field: string,
  request: Pick<ClaimsRequest, "namespace" | "workload" | "requestId">,
  spec: WireSpec,
  checks: Checks,
): ClaimSpec => {
  const plain = claimSpecFrom(field, spec, checks);
  if (spec.template === undefined) return plain;
  if (spec.volume !== "") checks.complain(`${field}.volume`, "has to be empty with a template, which makes it");
  if (spec.alias === "") checks.complain(`${field}.alias`, "is required with a template: the volume is named after it");
  if (plain.capability === undefined)
    checks.complain(`${field}.capability`, "is required with a template: the volume is made with it");
  const { namespace, workload, requestId } = request;
  const key = { namespace, workload, alias: spec.alias, requestId };
  const template = templateFrom(`${field}.template`, key, plain.capability, spec.template, checks);
  return { ...plain, volume: template.id, template };
};

const claimSpecFrom = (field: string, spec: WireSpec, checks: Checks): ClaimSpec => ({
  volume: spec.volume,
  alias: spec.alias,
  capability:
    spec.capability === undefined ? undefined : capabilityFrom(`${field}.capability`, spec.capability, checks),
  readOnly: spec.readOnly,
});

const queueFrom = (queue: Queueing | undefined, checks: Checks): CreateClaimsInput["queue"] => ({
  enabled: queue?.enabled ?? false,
  deadlineMs: durationMs("queue.deadline", queue?.deadline, checks),
});

/** What both ways of asking for claims have: schedulers', and that of an agent for a workload on its node. */
export interface ClaimsRequest {
  readonly namespace: string;
  readonly workload: string;
  readonly node: string;
  readonly claims: readonly WireSpec[];
  readonly requestId: string;
  readonly queue: Queueing | undefined;
}

export const claimsInput = (request: ClaimsRequest, checks: Checks): CreateClaimsInput => ({
  namespace: request.namespace,
  workload: request.workload,
  node: request.node,
  claims: request.claims.map((spec, i) => withTemplate(`claims[${i}]`, request, spec, checks)),
  requestId: request.requestId,
  queue: queueFrom(request.queue, checks),
});

/** The fields of a selection, and no more: a request may carry others. */
export const selectionOf = ({ namespace, workload, aliases, claimUids }: ClaimSelection): ClaimSelection => ({
  namespace,
  workload,
  aliases,
  claimUids,
});

export const claimFilterFrom = (filter: WireFilter | undefined, checks: Checks): ClaimFilter => ({
  namespace: optionalId("filter.namespace", filter?.namespace, checks),
  volume: optionalId("filter.volume", filter?.volume, checks),
  workload: optionalWorkload("filter.workload", filter?.workload, checks),
  node: optionalId("filter.node", filter?.node, checks),
  plugin: filter?.plugin ?? "",
  states: claimStatesFrom("filter.states", filter?.states ?? [], checks),
  blocked: filter?.blocked ?? false,
});

export const reconciledMessage = (found: ReconciledWorkloads, dryRun: boolean): ReconcileWorkloadsResponse => ({
  released: found.released.map(({ uid, state, createdAt, ...named }) => ({
    ...named,
    claimUid: uid,
    state: claimStateMessage(state),
    createdAt: dateOf(createdAt),
  })),
  releasedCount: BigInt(found.releasedCount),
  liveCount: BigInt(found.liveCount),
  youngerCount: BigInt(found.youngerCount),
  releasingCount: BigInt(found.releasingCount),
  dryRun,
});
