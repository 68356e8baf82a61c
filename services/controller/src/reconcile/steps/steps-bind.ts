import { noChange } from "../../domain/change.ts";
import { bound, mayBeMadeFor } from "../../domain/claim/early-claims.ts";
import { queueOf } from "../../domain/claim/grant.ts";
import type { Segments } from "../../domain/volume/volume.ts";
import { nodeJudgement } from "../../records/node-judgement.ts";
import type { StepHandler } from "./step-run.ts";

/**
 * Chooses the place of a volume by the first claim in its queue whose node can take it now; the others wait, or find it out of reach.
 * A node that is drained, here or by another controller, gets no volume that could never leave it.
 */
export const bindStep: StepHandler<"bind"> = async (deps, _step, { volume, traceId }) => {
  if (!deps.gate.state().open) return false;
  for (const claim of queueOf(volume)) {
    const judged = nodeJudgement(deps.nodes, claim.node);
    const place = (): Segments | undefined => {
      const { nodeReady, nodeClosed, nodeId, topology } = deps.factsOf(volume.plugin, claim.node);
      return nodeReady && nodeClosed === undefined && nodeId !== "" && mayBeMadeFor(volume, topology)
        ? topology
        : undefined;
    };
    if (place() === undefined) continue;
    const result = await deps.records.change(
      volume,
      (v, at) => {
        judged.look();
        const chosen = place();
        return v.uid === volume.uid && chosen !== undefined ? bound(v, claim.uid, chosen, at) : noChange(v);
      },
      { traceId, expects: judged.expects },
    );
    if (result.changed) return true;
  }
  return false;
};
