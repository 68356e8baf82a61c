import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { ClaimGoal, type WaitClaimsResponse } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { ClaimSelection, ClaimView } from "../../commands/model.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { ApiDeps } from "../api-deps.ts";
import type { Checks } from "../check-request.ts";
import { claimMessage } from "./convert-claim.ts";

export type Goal = "active" | "released";

export const goalFrom = (goal: ClaimGoal, checks: Checks): Goal => {
  if (goal === ClaimGoal.CLAIM_GOAL_RELEASED) return "released";
  if (goal !== ClaimGoal.CLAIM_GOAL_ACTIVE) checks.complain("goal", "is required: ACTIVE or RELEASED");
  return "active";
};

export const isOver = ({ kind }: ClaimView): boolean => kind === "over";

/** The records whose changes concern these claims. */
export const keysOf = (views: readonly ClaimView[]): readonly string[] => [
  ...new Set(
    views.map((view) =>
      volumeKey(view.kind === "living" ? view.volume : { namespace: view.claim.namespace, id: view.claim.volume }),
    ),
  ),
];

const settledFor: Record<Goal, (view: ClaimView) => boolean> = {
  active: (view) => isOver(view) || view.claim.state === "ACTIVE",
  released: isOver,
};

/** A release has reached its goal with whatever end: nothing of the claim is left. */
const reachedFor: Record<Goal, (view: ClaimView) => boolean> = {
  active: (view) => view.claim.state === "ACTIVE",
  released: isOver,
};

/** Equal texts mean that a caller would see the same claim. */
const looks = (view: ClaimView): string =>
  JSON.stringify(claimMessage(view), (key, value: unknown) =>
    key === "revision" ? undefined : typeof value === "bigint" ? value.toString() : value,
  );

/**
 * Streams how the claims get on until all have settled: first all, then what changed, last all. Woken by commits; the lives are those
 * that were there at the beginning, so that a later claim under the same key is not waited for.
 */
export async function* waitClaims(
  { commands, wakeups }: Pick<ApiDeps, "commands" | "wakeups">,
  selection: ClaimSelection,
  goal: Goal,
  signal: AbortSignal,
): AsyncGenerator<WaitClaimsResponse> {
  const shown = new Map<string, string>();
  let since = wakeups.version();
  let views = await commands.selectClaims(selection);
  refuseMissing(selection, views, goal);
  const keys = keysOf(views);
  for (let round = 0; ; round += 1) {
    if (views.every(settledFor[goal])) {
      yield { claims: views.map(claimMessage), settled: true, reached: views.every(reachedFor[goal]) };
      return;
    }
    const changed = views.filter((view) => round === 0 || shown.get(view.claim.uid) !== looks(view));
    for (const view of changed) shown.set(view.claim.uid, looks(view));
    if (changed.length > 0) yield { claims: changed.map(claimMessage), settled: false, reached: false };
    await wakeups.wait(keys, since, signal);
    since = wakeups.version();
    views = await commands.claimsNow(views);
  }
}

/** A claim that is not there can never become ACTIVE; for a release its absence is the goal. */
const refuseMissing = (
  { namespace, workload, aliases, claimUids }: ClaimSelection,
  views: readonly ClaimView[],
  goal: Goal,
): void => {
  if (goal === "released") return;
  const alias = aliases.find((one) => !views.some(({ claim }) => claim.alias === one));
  const uid = claimUids.find((one) => !views.some(({ claim }) => claim.uid === one));
  if (views.length > 0 && alias === undefined && uid === undefined) return;
  throw new HoldfastError({
    kind: "not_found",
    reason: "CLAIM_NOT_FOUND",
    message: `workload ${namespace}/${workload} has no claim${alias === undefined ? "" : ` ${alias}`}${uid === undefined ? "" : ` with uid ${uid}`}; create it first`,
    metadata: { namespace, workload, volume: "", alias: alias ?? "" },
  });
};
