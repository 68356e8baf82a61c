import {
  ClaimServiceDefinition,
  type CreateClaimsRequest,
  type ReleaseClaimsRequest,
  type ClaimGoal as WireGoal,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { ClaimSelection, ClaimView, CreateClaimsInput } from "../commands/model.ts";
import { validateCreateClaims, validateSelection } from "../commands/validate-claims.ts";
import { refuse } from "../commands/validate-volume.ts";
import { type ApiDeps, callerOf } from "./api-deps.ts";
import { type Checks, createChecks, durationMs, refuseAll } from "./check-request.ts";
import { watchClaims } from "./claim-watch.ts";
import { claimFilterFrom, claimMessage, claimSpecFrom, queueFrom } from "./convert-claim.ts";
import { type HoldOptions, holdUntil } from "./hold-until.ts";
import { nextPageToken, pageFrom, questionOf } from "./paging.ts";
import { unimplemented } from "./unimplemented.ts";
import { goalFrom, isOver, keysOf, waitClaims } from "./wait-claims.ts";

type ClaimService = Implementation<typeof ClaimServiceDefinition>;

export const createClaimService = (deps: ApiDeps): ClaimService =>
  unimplemented(ClaimServiceDefinition, { ...createClaimWrites(deps), ...createClaimReads(deps) });

const claimsInput = (request: CreateClaimsRequest, checks: Checks): CreateClaimsInput => ({
  namespace: request.namespace,
  workload: request.workload,
  node: request.node,
  claims: request.claims.map((spec, i) => claimSpecFrom(`claims[${i}]`, spec, checks)),
  requestId: request.requestId,
  queue: queueFrom(request.queue, checks),
});

const selectionOf = (request: {
  readonly namespace: string;
  readonly workload: string;
  readonly aliases: readonly string[];
  readonly claimUids: readonly string[];
}): ClaimSelection => {
  const { namespace, workload, aliases, claimUids } = request;
  return { namespace, workload, aliases, claimUids };
};

const createClaimWrites = (deps: ApiDeps): Pick<ClaimService, "createClaims" | "releaseClaims"> => {
  const { commands, wakeups, clock } = deps;

  /** The same lives as they are now, in the same order. */
  const again = (selection: ClaimSelection, first: readonly ClaimView[]) => async (): Promise<readonly ClaimView[]> => {
    const claimUids = first.map(({ claim }) => claim.uid);
    const found = await commands.selectClaims({ ...selection, aliases: [], claimUids });
    return first.map((view) => found.find(({ claim }) => claim.uid === view.claim.uid) ?? view);
  };

  const held = async (
    selection: ClaimSelection,
    first: readonly ClaimView[],
    rest: Pick<HoldOptions<readonly ClaimView[]>, "context" | "waitMs" | "since" | "settled">,
  ): Promise<readonly ClaimView[]> =>
    holdUntil({ ...rest, wakeups, clock, first, keys: keysOf(first), read: again(selection, first) });

  return {
    async createClaims(request, context) {
      const checks = createChecks();
      const input = claimsInput(request, checks);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateCreateClaims(input));
      const since = wakeups.version();
      const first = await commands.createClaims(input, callerOf(deps, context, "CreateClaims"));
      const { namespace, workload } = input;
      const views = await held({ namespace, workload, aliases: [], claimUids: [] }, first, {
        context,
        waitMs,
        since,
        settled: (all) => all.every((view) => isOver(view) || view.claim.state === "ACTIVE"),
      });
      return { claims: views.map(claimMessage) };
    },

    async releaseClaims(request: ReleaseClaimsRequest, context) {
      const checks = createChecks();
      const selection = selectionOf(request);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateSelection(selection));
      const since = wakeups.version();
      const first = await commands.releaseClaims(selection, callerOf(deps, context, "ReleaseClaims"));
      const views = await held(selection, first, { context, waitMs, since, settled: (all) => all.every(isOver) });
      return { claims: views.map(claimMessage) };
    },
  };
};

const createClaimReads = (
  deps: ApiDeps,
): Pick<ClaimService, "waitClaims" | "getClaim" | "listClaims" | "watchClaims"> => {
  const { commands } = deps;
  return {
    waitClaims(request, { signal }) {
      const checks = createChecks();
      const goal = goalFrom(request.goal satisfies WireGoal, checks);
      const selection = selectionOf(request);
      refuseAll(checks, () => validateSelection(selection));
      return waitClaims(deps, selection, goal, signal);
    },

    getClaim: async ({ namespace, volume, workload, alias, uid }) => ({
      claim: claimMessage(await commands.getClaim({ namespace, volume, workload, alias, uid })),
    }),

    async listClaims(request) {
      const checks = createChecks();
      const filter = claimFilterFrom(request.filter, checks);
      const question = questionOf("ListClaims", filter);
      const page = pageFrom(request, question, checks);
      refuse(checks.violations);
      const { items, next } = await commands.listClaims(filter, page);
      return { claims: items.map(claimMessage), nextPageToken: nextPageToken(next, question) };
    },

    watchClaims: (request, { signal }) => watchClaims(deps, request, signal),
  };
};
