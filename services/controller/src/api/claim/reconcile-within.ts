/** ReconcileWorkloads of a caller that sees some namespaces only: without a namespace it is about all of those, and about no other. */
import type { ReconciledWorkloads, ReconcileWorkloadsInput } from "../../commands/model.ts";
import type { CallerScope } from "../../domain/access/caller-scope.ts";

const none: ReconciledWorkloads = { released: [], releasedCount: 0, liveCount: 0, youngerCount: 0, releasingCount: 0 };

/** As many as one answer shows. */
const shown = 500;

const sumOf = (a: ReconciledWorkloads, b: ReconciledWorkloads): ReconciledWorkloads => ({
  released: [...a.released, ...b.released].slice(0, shown),
  releasedCount: a.releasedCount + b.releasedCount,
  liveCount: a.liveCount + b.liveCount,
  youngerCount: a.youngerCount + b.youngerCount,
  releasingCount: a.releasingCount + b.releasingCount,
});

export const reconcileWithin = async (
  { namespaces }: CallerScope,
  input: ReconcileWorkloadsInput,
  reconcile: (input: ReconcileWorkloadsInput) => Promise<ReconciledWorkloads>,
): Promise<ReconciledWorkloads> => {
  if (namespaces === undefined || input.namespace !== "") return await reconcile(input);
  let found = none;
  for (const namespace of namespaces) {
    const live = input.live.filter((one) => one.namespace === namespace);
    // What is empty for one namespace only is meant: the list that was checked holds all that runs.
    found = sumOf(found, await reconcile({ ...input, namespace, live, noneLive: live.length === 0 }));
  }
  return found;
};
