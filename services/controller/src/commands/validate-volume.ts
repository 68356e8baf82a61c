import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import {
  checkCapability,
  checkCapacity,
  checkId,
  checkMap,
  checkOptionalId,
  checkPlugin,
  checkSecretRef,
  checkSegments,
  checkString,
  limits,
  type Violation,
} from "../domain/limits.ts";
import { secretFamilies, type VolumeCapability, type VolumeRef } from "../domain/volume.ts";
import type { CreateVolumeInput, DeleteVolumeInput } from "./model.ts";

export const refuse = (violations: readonly Violation[]): void => {
  if (violations.length > 0) throw invalidArgument(violations);
};

export const checkRef = (ref: VolumeRef): readonly Violation[] => [
  ...checkId("namespace", ref.namespace),
  ...checkId("id", ref.id),
];

const checkCapabilities = (capabilities: readonly VolumeCapability[]): readonly Violation[] => {
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

const checkTopology = ({ required, preferred }: CreateVolumeInput["topology"]): readonly Violation[] => [
  ...(required.length + preferred.length > limits.topologies
    ? [{ field: "topology", description: `more than ${limits.topologies} places` }]
    : []),
  ...required.flatMap((segments, i) => checkSegments(`topology.required[${i}].segments`, segments)),
  ...preferred.flatMap((segments, i) => checkSegments(`topology.preferred[${i}].segments`, segments)),
];

const fieldOf = (family: string): string => family.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

/** Every violation of a request at once, before anything is written. */
export const validateCreateVolume = (input: CreateVolumeInput): void =>
  refuse([
    ...checkRef(input),
    ...checkPlugin("plugin", input.plugin),
    ...checkCapacity("capacity", input.capacity),
    ...checkCapabilities(input.capabilities),
    ...checkMap("parameters", input.parameters),
    ...checkMap("mutable_parameters", input.mutableParameters),
    ...checkTopology(input.topology),
    ...(input.contentSource.kind === "none"
      ? []
      : checkId(`content_source.${input.contentSource.kind}`, input.contentSource.id)),
    ...secretFamilies.flatMap((family) => {
      const ref = input.secretRefs[family];
      return ref === undefined ? [] : checkSecretRef(`secrets.${fieldOf(family)}.ref`, ref);
    }),
    ...checkMap("labels", input.labels),
    ...input.policy.identityTokens.flatMap(({ audience, ttlSeconds }, i) => [
      ...checkString(`policy.identity_tokens[${i}].audience`, audience),
      ...(ttlSeconds > 0 ? [] : [{ field: `policy.identity_tokens[${i}].ttl`, description: "must be above zero" }]),
    ]),
    ...(input.policy.identityTokens.length > limits.identityTokens
      ? [{ field: "policy.identity_tokens", description: `more than ${limits.identityTokens}` }]
      : []),
    ...checkString("request_id", input.requestId),
  ]);

export const validateDeleteVolume = (input: DeleteVolumeInput): void =>
  refuse([...checkRef(input), ...checkOptionalId("uid", input.uid), ...checkString("request_id", input.requestId)]);

export const validateRef = (ref: VolumeRef): void => refuse(checkRef(ref));
