import {
  checkCapability,
  checkId,
  checkOptionalId,
  checkString,
  checkWorkload,
  limits,
  type Violation,
} from "../../domain/limits.ts";
import type { SecretGrants } from "../../domain/secret/secret-scope.ts";
import type { CreateClaimsInput, GetClaimInput, HandOverInput, ReleaseClaimsInput } from "../model.ts";
import { checkCreateVolume, refuse } from "../volume/validate-volume.ts";

export const checkCount = (field: string, count: number, least: number): readonly Violation[] =>
  count < least || count > limits.setMembers
    ? [{ field, description: `must be ${least} to ${limits.setMembers}` }]
    : [];

const checkDeadline = (field: string, ms: number | undefined): readonly Violation[] =>
  ms === undefined || (ms > 0 && ms <= limits.queueMs)
    ? []
    : [{ field, description: "must be above zero and at most 7 days" }];

/** An alias is the workload's own name for a volume, so that it can stand for one only. */
export const checkAliases = (claims: CreateClaimsInput["claims"]): readonly Violation[] => {
  const seen = new Set<string>();
  return claims.flatMap(({ volume, alias }, i) => {
    const name = alias === "" ? volume : alias;
    const again = seen.has(name);
    seen.add(name);
    return again ? [{ field: `claims[${i}].alias`, description: `"${name.slice(0, 64)}" is used twice` }] : [];
  });
};

const checkAfter = ({ workload, after = [] }: CreateClaimsInput): readonly Violation[] => [
  ...checkCount("after_workloads", after.length, 0),
  ...after
    .slice(0, limits.setMembers)
    .flatMap((other, i) => [
      ...checkWorkload(`after_workloads[${i}]`, other),
      ...(other === workload ? [{ field: `after_workloads[${i}]`, description: "must not be the workload" }] : []),
    ]),
];

/** Volumes of templates, by the fields of the templates. */
export const checkTemplates = (claims: CreateClaimsInput["claims"], granted: SecretGrants): readonly Violation[] =>
  claims.slice(0, limits.setMembers).flatMap(({ template }, i) =>
    template === undefined
      ? []
      : checkCreateVolume(template, granted)
          // The claim's own fields are judged as the claim's.
          .filter(({ field }) => !/^(namespace|id|request_id|capabilities)\b/.test(field))
          .map(({ field, description }) => ({ field: `claims[${i}].template.${field}`, description })),
  );

export const validateCreateClaims = (input: CreateClaimsInput, granted: SecretGrants): void =>
  refuse([
    ...checkId("namespace", input.namespace),
    ...checkWorkload("workload", input.workload),
    ...checkId("node", input.node),
    ...checkCount("claims", input.claims.length, 1),
    ...input.claims
      .slice(0, limits.setMembers)
      .flatMap((spec, i) => [
        ...checkId(`claims[${i}].volume`, spec.volume),
        ...checkOptionalId(`claims[${i}].alias`, spec.alias),
        ...(spec.capability === undefined ? [] : checkCapability(`claims[${i}].capability`, spec.capability)),
      ]),
    ...checkAliases(input.claims.slice(0, limits.setMembers)),
    ...checkDeadline("queue.deadline", input.queue.deadlineMs),
    ...checkAfter(input),
    ...checkTemplates(input.claims, granted),
    ...checkString("request_id", input.requestId),
  ]);

export const validateSelection = (input: ReleaseClaimsInput): void =>
  refuse([
    ...checkId("namespace", input.namespace),
    ...checkWorkload("workload", input.workload),
    ...checkCount("aliases", input.aliases.length, 0),
    ...input.aliases.slice(0, limits.setMembers).flatMap((alias, i) => checkId(`aliases[${i}]`, alias)),
    ...checkCount("claim_uids", input.claimUids.length, 0),
    ...input.claimUids.slice(0, limits.setMembers).flatMap((uid, i) => checkId(`claim_uids[${i}]`, uid)),
  ]);

export const validateHandOver = (input: HandOverInput): void =>
  refuse([
    ...checkId("namespace", input.namespace),
    ...checkWorkload("from_workload", input.fromWorkload),
    ...checkWorkload("to_workload", input.toWorkload),
    ...checkId("to_node", input.toNode),
    ...checkCount("aliases", input.aliases.length, 0),
    ...input.aliases.slice(0, limits.setMembers).flatMap((alias, i) => checkId(`aliases[${i}]`, alias)),
    ...checkDeadline("deadline", input.deadlineMs),
    ...checkString("request_id", input.requestId),
    ...(input.fromWorkload === input.toWorkload
      ? [{ field: "to_workload", description: "must not be from_workload" }]
      : []),
  ]);

export const validateGetClaim = (input: GetClaimInput): void =>
  refuse([
    ...checkId("namespace", input.namespace),
    ...checkId("volume", input.volume),
    ...checkWorkload("workload", input.workload),
    ...checkId("alias", input.alias),
    ...checkOptionalId("uid", input.uid),
  ]);
