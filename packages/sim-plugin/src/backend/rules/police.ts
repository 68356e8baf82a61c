import type { Call } from "../call.ts";
import { capabilityRules } from "./capability-rules.ts";
import { controllerOrderRules } from "./controller-order-rules.ts";
import { existenceRules } from "./existence-rules.ts";
import { fieldRules } from "./field-rules.ts";
import { flowRules } from "./flow-rules.ts";
import { nodeOrderRules } from "./node-order-rules.ts";
import { replayRules } from "./replay-rules.ts";
import { type Finding, findingsOf, type Rule, type World } from "./rule.ts";
import { sizeRules } from "./size-rules.ts";
import { tokenRules } from "./token-rules.ts";

/**
 * The chapters in the order in which a plugin would notice. A call that fails one chapter is not judged by the next:
 * what a missing volume's order would be has no meaning.
 */
const chapters = (lane: string | undefined): readonly (readonly Rule[])[] => [
  capabilityRules,
  [...fieldRules, ...sizeRules, ...tokenRules],
  flowRules(lane),
  existenceRules,
  [...replayRules, ...controllerOrderRules, ...nodeOrderRules],
];

/** Every rule there is, for the documentation and for the test that breaks each. */
export const allRules: readonly Rule[] = chapters(undefined).flat();

export const police = (call: Call, world: World, lane: string | undefined): readonly Finding[] => {
  for (const rules of chapters(lane)) {
    const findings = findingsOf(rules, call, world);
    if (findings.length > 0) return findings;
  }
  return [];
};
