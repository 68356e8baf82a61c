import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import {
  checkCapability,
  checkCapacity,
  checkId,
  checkMap,
  checkOptionalId,
  checkPlugin,
  checkSecretRef,
  checkSecretValues,
  checkSegments,
  checkString,
  limits,
  type Violation,
} from "../../domain/limits.ts";
import type { CapacityQuery } from "../../domain/plugin/backend-capacity.ts";
import { checkTokenRequests } from "../../domain/plugin/publishing.ts";
import type { SecretGrants } from "../../domain/secret/secret-scope.ts";
import { type Segments, secretFamilies, type VolumeCapability, type VolumeRef } from "../../domain/volume/volume.ts";
import type {
  CreateVolumeInput,
  DeleteVolumeInput,
  ExpandVolumeInput,
  ModifyVolumeInput,
  RegisterVolumeInput,
  UpdateVolumeInput,
} from "../model.ts";

export const refuse = (violations: readonly Violation[]): void => {
  if (violations.length > 0) throw invalidArgument(violations);
};

/** `field`: where the id stands in the request. */
export const checkRef = (ref: VolumeRef, field = "id"): readonly Violation[] => [
  ...checkId("namespace", ref.namespace),
  ...checkId(field, ref.id),
];

export const checkCapabilities = (capabilities: readonly VolumeCapability[]): readonly Violation[] => {
  if (capabilities.length === 0) return [{ field: "capabilities", description: "must name at least one" }];
  const seen = new Set<string>();
  const repeated = capabilities.flatMap((capability, i) => {
    const text = JSON.stringify(capability);
    const again = seen.has(text);
    seen.add(text);
    return again ? [{ field: `capabilities[${i}]`, description: "is named twice" }] : [];
  });
  return [
    ...(capabilities.length > limits.capabilities
      ? [{ field: "capabilities", description: `more than ${limits.capabilities}` }]
      : []),
    ...capabilities.flatMap((capability, i) => checkCapability(`capabilities[${i}]`, capability)),
    ...repeated,
  ];
};

/** Keys of places are compared without regard to case. */
const placeKey = (segments: Segments): string =>
  JSON.stringify(
    Object.entries(segments)
      .map(([key, value]) => [key.toLowerCase(), value])
      .sort(),
  );

const checkTopology = ({ required, preferred }: CreateVolumeInput["topology"]): readonly Violation[] => [
  ...(required.length + preferred.length > limits.topologies
    ? [{ field: "topology", description: `more than ${limits.topologies} places` }]
    : []),
  ...required.flatMap((segments, i) => checkSegments(`topology.required[${i}].segments`, segments)),
  ...preferred.flatMap((segments, i) => checkSegments(`topology.preferred[${i}].segments`, segments)),
  // "If requisite is specified, all topologies in the preferred list MUST also be present in the list of requisite topologies."
  ...preferred.flatMap((segments, i) =>
    required.length === 0 || required.some((one) => placeKey(one) === placeKey(segments))
      ? []
      : [{ field: `topology.preferred[${i}]`, description: "is not among the required places" }],
  ),
];

const fieldOf = (family: string): string => family.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

/** Every violation of a request at once, before anything is written. */
export const validateCreateVolume = (input: CreateVolumeInput, granted: SecretGrants): void =>
  refuse(checkCreateVolume(input, granted));

export const checkCreateVolume = (input: CreateVolumeInput, granted: SecretGrants): readonly Violation[] => [
  ...checkRef(input),
  ...checkPlugin("plugin", input.plugin),
  ...checkMade(input, input.namespace, granted),
  ...(input.contentSource.kind === "none"
    ? []
    : checkId(`content_source.${input.contentSource.kind}`, input.contentSource.id)),
  ...checkString("request_id", input.requestId),
];

/** What the new storage is to be like. */
export const checkMade = (
  input: Pick<
    CreateVolumeInput,
    | "capacity"
    | "capabilities"
    | "parameters"
    | "mutableParameters"
    | "topology"
    | "secretRefs"
    | "inlineSecrets"
    | "labels"
    | "policy"
  >,
  namespace: string,
  granted: SecretGrants,
): readonly Violation[] => [
  ...checkCapacity("capacity", input.capacity),
  ...checkCapabilities(input.capabilities),
  ...checkMap("parameters", input.parameters),
  ...checkMap("mutable_parameters", input.mutableParameters),
  ...checkTopology(input.topology),
  ...checkOwn(input, namespace, granted),
];

/** What is Holdfast's own, and may be changed later. */
export const checkOwn = (
  {
    secretRefs,
    inlineSecrets = {},
    labels,
    policy,
  }: Pick<UpdateVolumeInput["update"], "secretRefs" | "labels" | "policy"> & Pick<CreateVolumeInput, "inlineSecrets">,
  namespace: string,
  granted: SecretGrants,
): readonly Violation[] => [
  ...secretFamilies.flatMap((family) => {
    const ref = secretRefs?.[family];
    return ref === undefined ? [] : checkSecretRef(`secrets.${fieldOf(family)}.ref`, ref, namespace, granted);
  }),
  ...(Object.keys(inlineSecrets).length === 0 ? [] : checkSecretValues("inline_secrets", inlineSecrets)),
  ...checkMap("labels", labels ?? {}),
  ...checkTokenRequests("policy.identity_tokens", "ttl", policy?.identityTokens ?? []),
];

export const validateRegisterVolume = (input: RegisterVolumeInput, granted: SecretGrants, idField = "id"): void =>
  refuse([
    ...checkRef(input, idField),
    ...checkPlugin("plugin", input.plugin),
    ...(input.externalId === ""
      ? [{ field: "external_id", description: "is required" }]
      : checkString("external_id", input.externalId)),
    ...checkCapacity("capacity", input.capacity),
    ...checkCapabilities(input.capabilities),
    ...checkMap("context", input.context),
    ...checkMap("parameters", input.parameters),
    ...checkMap("mutable_parameters", input.mutableParameters),
    ...(input.accessible.length > limits.topologies
      ? [{ field: "accessible_topology", description: `more than ${limits.topologies} places` }]
      : []),
    ...input.accessible.flatMap((segments, i) => checkSegments(`accessible_topology[${i}].segments`, segments)),
    ...checkOwn(input, input.namespace, granted),
    ...checkString("request_id", input.requestId),
  ]);

export const validateUpdateVolume = (
  { update, expectedRevision, ...ref }: UpdateVolumeInput,
  granted: SecretGrants,
): void =>
  refuse([
    ...checkRef(ref),
    ...(Number.isSafeInteger(expectedRevision) && expectedRevision >= 0
      ? []
      : [{ field: "expected_revision", description: "has to be a revision, or 0" }]),
    ...(update.capabilities === undefined ? [] : checkCapabilities(update.capabilities)),
    ...checkOwn(update, ref.namespace, granted),
  ]);

export const validateDeleteVolume = (input: DeleteVolumeInput): void =>
  refuse([...checkRef(input), ...checkOptionalId("uid", input.uid), ...checkString("request_id", input.requestId)]);

export const validateExpandVolume = (input: ExpandVolumeInput): void =>
  refuse([
    ...checkRef(input),
    ...checkCapacity("capacity", input.capacity),
    ...(input.capacity.required > 0 ? [] : [{ field: "capacity.required_bytes", description: "must be above zero" }]),
    ...checkString("request_id", input.requestId),
  ]);

export const validateModifyVolume = (input: ModifyVolumeInput): void =>
  refuse([
    ...checkRef(input),
    ...(Object.keys(input.mutableParameters).length > 0
      ? checkMap("mutable_parameters", input.mutableParameters)
      : [{ field: "mutable_parameters", description: "must name at least one" }]),
    ...checkString("request_id", input.requestId),
  ]);

export const validateGetCapacity = ({ plugin, capabilities, parameters, topology }: CapacityQuery): void =>
  refuse([
    ...checkPlugin("plugin", plugin),
    ...(capabilities.length === 0 ? [] : checkCapabilities(capabilities)),
    ...checkMap("parameters", parameters),
    ...(topology === undefined ? [] : checkSegments("topology.segments", topology)),
  ]);

export const validateRef = (ref: VolumeRef): void => refuse(checkRef(ref));
