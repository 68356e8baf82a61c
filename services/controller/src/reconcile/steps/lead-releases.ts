/**
 * The release that a caller asks for leaves beside the commit that stores the wish.
 *
 * LR1 The order names the very claim and epoch that the caller gives up: whatever becomes of the commit, its agent takes away nothing else.
 * LR2 Where the commit is not made, the request fails and the claim stays as it was, without its mount, until somebody asks for its release
 *    again. Its attachment stays too; the agent mounts nothing under that epoch any more, and says so to whoever asks.
 * LR3 The answer is kept for the claim as the wish leaves it. It proves what it says whenever it came, as no permit of its epoch is followed
 *    behind it.
 */
import type { Claim } from "../../domain/claim/claim.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { replacedNode } from "./push-permit.ts";
import { pushRelease } from "./push-release.ts";
import type { StepDeps } from "./step-run.ts";

type LeadDeps = Pick<StepDeps, "agents" | "gate" | "ledReleases" | "nodes" | "sent" | "signal" | "taking">;

const isGivenUp = (before: VolumeRecord, { uid, state }: Claim): boolean =>
  state === "RELEASING" && before.claims[uid]?.state === "ACTIVE";

/** undefined: nothing leaves. */
export const leadReleases = (deps: LeadDeps, before: VolumeRecord, after: VolumeRecord): Promise<void> | undefined => {
  const { gate, ledReleases, nodes, sent, taking } = deps;
  const { open, vetting } = gate.state(after.plugin);
  if (!open || taking.aborted) return undefined;
  let leads = false;
  for (const claim of Object.values(after.claims)) {
    const { epoch, node: name, uid } = claim;
    const node = isGivenUp(before, claim) ? nodes.get(name) : undefined;
    // Through another controller, or to an agent that does not answer now, it is no faster.
    if (node?.live !== "alive" || node.linked === false || epoch === undefined) continue;
    if (replacedNode(before, uid, node.record) !== undefined) continue;
    ledReleases.set(claim, pushRelease(deps, after, { ...claim, epoch }, node.record, vetting));
    leads = true;
  }
  // It leaves with the end of the turn, and the commit has time until the agent has answered.
  return leads ? sent() : undefined;
};
