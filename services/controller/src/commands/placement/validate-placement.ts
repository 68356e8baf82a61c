import {
  checkCapability,
  checkId,
  checkOptionalId,
  checkWorkload,
  limits,
  type Violation,
} from "../../domain/limits.ts";
import type { SecretGrants } from "../../domain/secret/secret-scope.ts";
import { checkAliases, checkCount, checkTemplates } from "../claim/validate-claims.ts";
import { refuse } from "../volume/validate-volume.ts";
import type { CheckPlacementInput } from "./placement-model.ts";

/** By name at most as many as a page holds. */
const checkNodes = (nodes: readonly string[]): readonly Violation[] => [
  ...(nodes.length > limits.pageSize
    ? [{ field: "nodes", description: `must be at most ${limits.pageSize}; leave it empty for all` }]
    : []),
  ...nodes.slice(0, limits.pageSize).flatMap((name, i) => checkId(`nodes[${i}]`, name)),
];

export const validateCheckPlacement = (input: CheckPlacementInput, granted: SecretGrants): void =>
  refuse([
    ...checkId("namespace", input.namespace),
    ...(input.workload === "" ? [] : checkWorkload("workload", input.workload)),
    ...checkCount("claims", input.claims.length, 1),
    ...input.claims
      .slice(0, limits.setMembers)
      .flatMap((spec, i) => [
        ...checkId(`claims[${i}].volume`, spec.volume),
        ...checkOptionalId(`claims[${i}].alias`, spec.alias),
        ...(spec.capability === undefined ? [] : checkCapability(`claims[${i}].capability`, spec.capability)),
      ]),
    ...checkAliases(input.claims.slice(0, limits.setMembers)),
    ...checkTemplates(input.claims, granted),
    ...checkNodes(input.nodes),
    ...checkCount("after_workloads", input.after.length, 0),
    ...input.after.slice(0, limits.setMembers).flatMap((other, i) => checkWorkload(`after_workloads[${i}]`, other)),
  ]);
