import { noChange } from "../domain/change.ts";
import { bound, mayBeMadeFor } from "../domain/early-claims.ts";
import { queueOf } from "../domain/grant.ts";
import type { StepHandler } from "./step-run.ts";

/** Chooses the place of a volume by the first claim in its queue whose node can take it now; the others wait, or find it out of reach. */
export const bindStep: StepHandler<"bind"> = async (deps, _step, { volume, traceId }) => {
  if (!deps.gate.state().open) return false;
  for (const claim of queueOf(volume)) {
    const facts = deps.factsOf(volume.plugin, claim.node);
    if (!facts.nodeReady || facts.nodeId === "" || !mayBeMadeFor(volume, facts.topology)) continue;
    const result = await deps.records.change(
      volume,
      (v, at) => (v.uid === volume.uid ? bound(v, claim.uid, facts.topology, at) : noChange(v)),
      { traceId },
    );
    if (result.changed) return true;
  }
  return false;
};
