import { commandWord } from "@holdfast/model/command-word";
import { type Claim, type ClaimGoal, ClaimState, ClaimGoal as Goal } from "@holdfast/shared/gen/holdfast/v1/claim";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Context } from "../../frame/context.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { lastErrorText } from "../resource-words.ts";
import { blockedFailure } from "../stuck-failure.ts";
import { claimStates } from "./claim-words.ts";

export interface AwaitedClaims {
  readonly namespace: string;
  readonly workload: string;
  readonly aliases?: readonly string[];
  readonly claimUids: readonly string[];
  readonly goal: ClaimGoal;
}

interface Seen {
  readonly claims: readonly Claim[];
  readonly settled: boolean;
  readonly reached: boolean;
}

const lineOf = (claims: readonly Claim[], goal: ClaimGoal): string => {
  const open = claims.filter(
    ({ state }) => state !== ClaimState.CLAIM_STATE_ACTIVE || goal === Goal.CLAIM_GOAL_RELEASED,
  );
  return (open.length === 0 ? claims : open)
    .map(
      (claim) =>
        `${claim.volume} ${claimStates.of(claim.state)}${claim.waitingFor === "" ? "" : `: ${claim.waitingFor}`}`,
    )
    .join("; ");
};

const failure = (wanted: AwaitedClaims, claims: readonly Claim[]): CliFailure => {
  const ended = claims.find(
    ({ state }) => state === ClaimState.CLAIM_STATE_FAILED || state === ClaimState.CLAIM_STATE_FENCED,
  );
  return new CliFailure({
    exitCode: exitCodes.failed,
    reason: ended?.lastError?.reason ?? "CLAIMS_ENDED",
    message: `the claims of ${wanted.workload} did not become ${wanted.goal === Goal.CLAIM_GOAL_ACTIVE ? "ACTIVE" : "RELEASED"}`,
    details: claims.map((claim) =>
      `${claim.alias}: ${claimStates.of(claim.state)} ${lastErrorText(claim.lastError)}`.trimEnd(),
    ),
    next: claims
      .slice(0, 1)
      .map(({ volume, namespace }) => `holdfast volume explain ${volume} --namespace ${namespace}`),
  });
};

const failIfBlocked = (claims: readonly Claim[]): void => {
  const stuck = claims.find(({ blocked }) => blocked !== undefined);
  if (stuck?.blocked === undefined) return;
  const what = `the claim of ${stuck.workload} to ${stuck.namespace}/${stuck.volume}`;
  throw blockedFailure(what, stuck.blocked, `holdfast volume explain ${stuck.volume} --namespace ${stuck.namespace}`);
};

async function* watchClaims(context: Context, wanted: AwaitedClaims, signal: AbortSignal): AsyncIterable<Seen> {
  const known = new Map<string, Claim>();
  const request = { ...wanted, aliases: [...(wanted.aliases ?? [])], claimUids: [...wanted.claimUids] };
  for await (const message of context.clients.claims.waitClaims(request, { signal })) {
    for (const claim of message.claims) known.set(claim.uid, claim);
    yield { claims: [...known.values()], settled: message.settled, reached: message.reached };
  }
}

/** Until all reached the goal, with the claims as they are then; one that failed or is blocked ends the wait with words. */
export const awaitClaims = (context: Context, wanted: AwaitedClaims): Promise<readonly Claim[]> => {
  const at = `--namespace ${wanted.namespace}`;
  return context.wait({
    what: `the claims of ${wanted.namespace}/${wanted.workload}`,
    watch: (signal) => watchClaims(context, wanted, signal),
    line: ({ claims }) => lineOf(claims, wanted.goal),
    settled: ({ claims, settled, reached }) => {
      if (settled && reached) return claims;
      if (settled) throw failure(wanted, claims);
      failIfBlocked(claims);
      return undefined;
    },
    look: `holdfast claim list --workload ${commandWord(wanted.workload)} ${at}`,
    stop: `holdfast claim release ${commandWord(wanted.workload)} ${at}`,
  });
};

interface SeenOfMany extends Seen {
  readonly before: readonly Claim[];
  readonly over: boolean;
  readonly line: string;
}

/** One workload after the other: all are on their way already, so whoever is looked at late is over at the first look. */
async function* watchMany(
  context: Context,
  workloads: readonly ReleasedWorkload[],
  signal: AbortSignal,
): AsyncIterable<SeenOfMany> {
  const before: Claim[] = [];
  const goal = Goal.CLAIM_GOAL_RELEASED;
  for (const [i, workload] of workloads.entries()) {
    let last: Seen | undefined;
    for await (const seen of watchClaims(context, { ...workload, goal }, signal)) {
      last = seen;
      const line = `${i} of ${workloads.length} workloads released; ${workload.workload}: ${lineOf(seen.claims, goal)}`;
      yield { ...seen, before, over: i === workloads.length - 1, line };
    }
    before.push(...(last?.claims ?? []));
  }
}

export type ReleasedWorkload = Omit<AwaitedClaims, "goal">;

/** Until the claims of all these workloads are released, in the time of one wait. */
export const awaitReleased = async (
  context: Context,
  what: string,
  workloads: readonly ReleasedWorkload[],
  look: string,
): Promise<readonly Claim[]> =>
  workloads.length === 0
    ? []
    : context.wait({
        what,
        watch: (signal) => watchMany(context, workloads, signal),
        line: ({ line }) => line,
        settled: ({ before, claims, settled, over }) => {
          if (!settled) failIfBlocked(claims);
          return settled && over ? [...before, ...claims] : undefined;
        },
        look,
        stop: "",
      });
