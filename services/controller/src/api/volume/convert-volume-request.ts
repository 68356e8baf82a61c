/** What callers ask of volumes → the commands' words. */
import {
  type CreateVolumeRequest,
  type GetCapacityRequest,
  NodeLossPolicy,
  ReclaimPolicy,
  type RegisterVolumeRequest,
  type UpdateVolumeRequest,
  VolumeBinding,
  type VolumeFilter as WireFilter,
  type VolumePolicy as WirePolicy,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import type { CreateVolumeInput, RegisterVolumeInput, UpdateVolumeInput, VolumeFilter } from "../../commands/model.ts";
import type { CapacityQuery } from "../../domain/plugin/backend-capacity.ts";
import { type ContentSource, type VolumePolicy, volumeStates } from "../../domain/volume/volume.ts";
import { type Checks, optionalId, ttlSeconds } from "../check-request.ts";
import { capabilityFrom } from "../convert-message.ts";
import { secretsFrom } from "../secret/convert-secret.ts";
import { volumeStateMessage } from "./convert-volume.ts";

/** A volume that Holdfast makes is Holdfast's to remove, and one that was there before is not, unless somebody says otherwise. */
const reclaimFrom = (reclaim: ReclaimPolicy | undefined, registered: boolean): VolumePolicy["reclaim"] => {
  if (reclaim === ReclaimPolicy.RECLAIM_POLICY_RETAIN) return "retain";
  return reclaim === ReclaimPolicy.RECLAIM_POLICY_DELETE || !registered ? "delete" : "retain";
};

/** A word of a later version is never taken for the default: what a caller wants kept is not destroyed for it. */
const checkWord = (
  field: string,
  words: Readonly<Record<string, string | number>>,
  word: number | undefined,
  checks: Checks,
): void => {
  if (word !== undefined && (word < 0 || !Object.values(words).includes(word)))
    checks.complain(field, "is nothing that this version knows");
};

export const policyFrom = (policy: WirePolicy | undefined, registered: boolean, checks: Checks): VolumePolicy => {
  checkWord("policy.reclaim", ReclaimPolicy, policy?.reclaim, checks);
  checkWord("policy.node_loss", NodeLossPolicy, policy?.nodeLoss, checks);
  return {
    reclaim: reclaimFrom(policy?.reclaim, registered),
    nodeLoss: policy?.nodeLoss === NodeLossPolicy.NODE_LOSS_POLICY_FENCE ? "fence" : "wait",
    requiresRepublish: policy?.requiresRepublish ?? false,
    identityTokens: (policy?.identityTokens ?? []).map(({ audience, ttl }, i) => ({
      audience,
      ttlSeconds: ttlSeconds(`policy.identity_tokens[${i}].ttl`, ttl, checks),
    })),
  };
};

const sourceFrom = (source: CreateVolumeRequest["contentSource"], checks: Checks): ContentSource => {
  if (source?.snapshot !== undefined) return { kind: "snapshot", id: source.snapshot };
  if (source?.volume !== undefined) return { kind: "volume", id: source.volume };
  // Whoever asks for a copy is not given an empty volume.
  if (source !== undefined) checks.complain("content_source", "names neither a snapshot nor a volume");
  return { kind: "none" };
};

const isLate = (binding: VolumeBinding, checks: Checks): boolean => {
  checkWord("binding", VolumeBinding, binding, checks);
  return binding === VolumeBinding.VOLUME_BINDING_FIRST_CLAIM;
};

type Made = Pick<
  CreateVolumeRequest,
  "id" | "capacity" | "capabilities" | "parameters" | "mutableParameters" | "topology" | "secrets" | "labels" | "policy"
>;

/** What is said of every volume that is made, whatever it is made from. */
export const madeInput = (namespace: string, request: Made, checks: Checks) => ({
  id: request.id,
  capacity: {
    required: Number(request.capacity?.requiredBytes ?? 0n),
    limit: Number(request.capacity?.limitBytes ?? 0n),
  },
  capabilities: request.capabilities.map((one, i) => capabilityFrom(`capabilities[${i}]`, one, checks)),
  parameters: request.parameters,
  mutableParameters: request.mutableParameters,
  topology: {
    required: (request.topology?.required ?? []).map(({ segments }) => segments),
    preferred: (request.topology?.preferred ?? []).map(({ segments }) => segments),
  },
  secretRefs: secretsFrom(namespace, request.secrets),
  labels: request.labels,
  policy: policyFrom(request.policy, false, checks),
});

export const createVolumeInput = (request: CreateVolumeRequest, checks: Checks): CreateVolumeInput => ({
  ...madeInput(request.namespace, request, checks),
  namespace: request.namespace,
  plugin: request.plugin,
  contentSource: sourceFrom(request.contentSource, checks),
  lateBinding: isLate(request.binding, checks),
  inlineSecrets: request.inlineSecrets,
  requestId: request.requestId,
});

/** A part that is absent is left alone. */
export const updateVolumeInput = (request: UpdateVolumeRequest, checks: Checks): UpdateVolumeInput => {
  const { labels, policy, secrets, capabilities } = request;
  const unsaid = policy?.reclaim === undefined || policy.reclaim === ReclaimPolicy.RECLAIM_POLICY_UNSPECIFIED;
  const next = policyFrom(policy, false, checks);
  return {
    namespace: request.namespace,
    id: request.id,
    expectedRevision: Number(request.expectedRevision),
    update: {
      ...(labels === undefined ? {} : { labels: labels.labels }),
      ...(policy === undefined ? {} : { policy: { ...next, reclaim: unsaid ? undefined : next.reclaim } }),
      ...(secrets === undefined ? {} : { secretRefs: secretsFrom(request.namespace, secrets) }),
      ...(capabilities === undefined
        ? {}
        : {
            capabilities: capabilities.capabilities.map((one, i) =>
              capabilityFrom(`capabilities.capabilities[${i}]`, one, checks),
            ),
          }),
    },
  };
};

export const registerVolumeInput = (request: RegisterVolumeRequest, checks: Checks): RegisterVolumeInput => ({
  namespace: request.namespace,
  id: request.id,
  plugin: request.plugin,
  externalId: request.externalId,
  capacity: {
    required: Number(request.capacity?.requiredBytes ?? 0n),
    limit: Number(request.capacity?.limitBytes ?? 0n),
  },
  capabilities: request.capabilities.map((one, i) => capabilityFrom(`capabilities[${i}]`, one, checks)),
  context: request.context,
  parameters: request.parameters,
  mutableParameters: request.mutableParameters,
  accessible: request.accessibleTopology.map(({ segments }) => segments),
  secretRefs: secretsFrom(request.namespace, request.secrets),
  inlineSecrets: request.inlineSecrets,
  labels: request.labels,
  policy: policyFrom(request.policy, true, checks),
  requestId: request.requestId,
});

export const capacityQuery = (request: GetCapacityRequest, checks: Checks): CapacityQuery => ({
  plugin: request.plugin,
  capabilities: request.capabilities.map((one, i) => capabilityFrom(`capabilities[${i}]`, one, checks)),
  parameters: request.parameters,
  ...(request.topology === undefined ? {} : { topology: request.topology.segments }),
});

export const volumeFilterFrom = (filter: WireFilter | undefined, checks: Checks): VolumeFilter => ({
  namespace: optionalId("filter.namespace", filter?.namespace, checks),
  plugin: filter?.plugin ?? "",
  node: optionalId("filter.node", filter?.node, checks),
  states: (filter?.states ?? []).flatMap((wire, i) => {
    const state = volumeStates.find((known) => volumeStateMessage(known) === wire);
    if (state === undefined) checks.complain(`filter.states[${i}]`, "is no state of a volume");
    return state ?? [];
  }),
  blocked: filter?.blocked ?? false,
  labels: filter?.labels ?? {},
  idPrefix: filter?.idPrefix ?? "",
});
