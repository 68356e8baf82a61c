/**
 * Whose orders are followed: of the vetting that was promised last, and of none before it. An order that was decided in a history of the store
 * that is over may be held on its way for as long as it likes; the promise was made before anybody asked what this host holds.
 */
import { judgeVetting, maxGenerationStep, showVetting, type Vetting } from "@holdfast/model/vetting";
import type { AgentFacts } from "./types.ts";

export const promisedOf = ({ promisedGen, promisedTo }: Pick<AgentFacts, "promisedGen" | "promisedTo">): Vetting => ({
  gen: promisedGen,
  uid: promisedTo,
});

/** Why an order of that vetting is not followed; undefined: it may be. */
export const whyOutdated = (promised: Vetting, sender: Vetting): string | undefined => {
  const verdict = judgeVetting(promised, sender);
  if (verdict === "same" || verdict === "newer") return undefined;
  return `orders of generation ${showVetting(sender)} are not followed: generation ${showVetting(promised)} was promised`;
};

/** No vetting gets so far: the number was promised to a sender that no controller was, and nobody can go beyond it. */
export const promisedInError = (promised: Vetting, sender: Vetting): boolean =>
  promised.gen - sender.gen > maxGenerationStep;
