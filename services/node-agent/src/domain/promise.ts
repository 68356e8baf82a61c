/**
 * Whose orders are followed: of the vetting that was promised last, and of none before it. An order that was decided in a history of the store
 * that is over may be held on its way for as long as it likes; the promise was made before anybody asked what this host holds.
 */
import { judgeVetting, maxGenerationStep, showVetting, type Vetting, withPromise } from "@holdfast/model/vetting";
import { leapOfGeneration } from "./epoch-steps.ts";
import type { AgentFacts } from "./types.ts";

export const promisedOf = ({ promisedGen, promisedTo }: Pick<AgentFacts, "promisedGen" | "promisedTo">): Vetting => ({
  gen: promisedGen,
  uid: promisedTo,
});

/** What is promised when an order of that vetting comes, or is asked for: the first one of a higher generation is a promise of it. */
export const judgePromise = (
  known: Vetting,
  asked: Vetting,
): { readonly kind: "known" } | { readonly kind: "new" } | { readonly kind: "leap"; readonly why: string } => {
  const why = leapOfGeneration(known.gen, asked.gen);
  if (why !== undefined) return { kind: "leap", why };
  return { kind: withPromise(known, asked) === known ? "known" : "new" };
};

/** Why an order of that vetting is not followed; undefined: it may be. */
export const whyOutdated = (promised: Vetting, sender: Vetting): string | undefined => {
  const verdict = judgeVetting(promised, sender);
  if (verdict === "same" || verdict === "newer") return undefined;
  return `orders of generation ${showVetting(sender)} are not followed: generation ${showVetting(promised)} was promised`;
};

/** No vetting gets so far: the number was promised to a sender that no controller was, and nobody can go beyond it. */
export const promisedInError = (promised: Vetting, sender: Vetting): boolean =>
  promised.gen - sender.gen > maxGenerationStep;
