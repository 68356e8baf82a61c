/** The template of a claim's volume → the request for the volume. */

import { claimVolumeId } from "@holdfast/shared/claim-volume-id";
import { VolumeLifetime, type VolumeTemplate } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { CreateVolumeInput } from "../../commands/model.ts";
import { withNamespace } from "../../domain/secret/secret.ts";
import { type SecretRefs, secretFamilies, type VolumeCapability } from "../../domain/volume/volume.ts";
import type { Checks } from "../check-request.ts";

interface ClaimKey {
  readonly namespace: string;
  readonly workload: string;
  readonly alias: string;
  readonly requestId: string;
}

const wireNames = new Map(
  secretFamilies.map((family) => [family.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), family]),
);

const secretsFrom = (field: string, namespace: string, { secrets }: VolumeTemplate, checks: Checks): SecretRefs =>
  Object.fromEntries(
    Object.entries(secrets).flatMap(([name, { ref }]) => {
      const family = wireNames.get(name);
      if (family !== undefined) return [[family, withNamespace(namespace, ref)]];
      checks.complain(`${field}.secrets`, `"${name.slice(0, 64)}" is none of ${[...wireNames.keys()].join(", ")}`);
      return [];
    }),
  );

const sourceFrom = ({ snapshot, volume }: VolumeTemplate): CreateVolumeInput["contentSource"] => {
  if (snapshot !== undefined) return { kind: "snapshot", id: snapshot };
  return volume === undefined ? { kind: "none" } : { kind: "volume", id: volume };
};

const lifetimes = [
  VolumeLifetime.VOLUME_LIFETIME_EPHEMERAL,
  VolumeLifetime.VOLUME_LIFETIME_RETAIN,
] as readonly number[];

export const templateFrom = (
  field: string,
  { namespace, workload, alias, requestId }: ClaimKey,
  capability: VolumeCapability | undefined,
  template: VolumeTemplate,
  checks: Checks,
): CreateVolumeInput => {
  // What is lost with a claim is said, and never guessed.
  if (!lifetimes.includes(template.lifetime)) checks.complain(`${field}.lifetime`, "is required: ephemeral or retain");
  const ephemeral = template.lifetime === VolumeLifetime.VOLUME_LIFETIME_EPHEMERAL;
  return {
    namespace,
    id: claimVolumeId(workload, alias),
    plugin: template.plugin,
    capacity: {
      required: Number(template.capacity?.requiredBytes ?? 0n),
      limit: Number(template.capacity?.limitBytes ?? 0n),
    },
    capabilities: capability === undefined ? [] : [capability],
    parameters: template.parameters,
    mutableParameters: template.mutableParameters,
    topology: {
      required: (template.topology?.required ?? []).map(({ segments }) => segments),
      preferred: (template.topology?.preferred ?? []).map(({ segments }) => segments),
    },
    contentSource: sourceFrom(template),
    lateBinding: true,
    secretRefs: secretsFrom(field, namespace, template, checks),
    labels: template.labels,
    policy: { reclaim: "delete", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] },
    requestId,
    ...(ephemeral ? { ephemeral: { workload, alias } } : {}),
  };
};
