import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { validateReconcileWorkloads } from "../../commands/claim/reconcile-workloads.ts";
import { validateCreateClaims, validateHandOver, validateSelection } from "../../commands/claim/validate-claims.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import { listWithin } from "../access/within-scope.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { createChecks, durationMs, refuseAll } from "../check-request.ts";
import { nextPageToken, pageFrom, questionOf, readToken, writeToken } from "../page-token.ts";
import { unimplemented } from "../unimplemented.ts";
import { createClaimHold } from "./claim-hold.ts";
import { watchClaims } from "./claim-watch.ts";
import { claimFilterFrom, claimMessage, claimsInput, reconciledMessage, selectionOf } from "./convert-claim.ts";
import { reconcileWithin } from "./reconcile-within.ts";
import { goalFrom, waitClaims } from "./wait-claims.ts";

type ClaimService = Implementation<typeof ClaimServiceDefinition>;

export const createClaimService = (deps: ApiDeps): ClaimService =>
  unimplemented(ClaimServiceDefinition, { ...createClaimWrites(deps), ...createClaimReads(deps) });

/** A token that names a moment belongs to no filter. */
const listQuestion = questionOf("GetListToken", {});

type ClaimWrites = Pick<
  ClaimService,
  "createClaims" | "releaseClaims" | "handOver" | "getListToken" | "reconcileWorkloads"
>;

const createClaimWrites = (deps: ApiDeps): ClaimWrites => {
  const { commands } = deps;
  const held = createClaimHold(deps);
  return {
    async createClaims(request, context) {
      const checks = createChecks();
      const input = claimsInput(request, checks);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateCreateClaims(input, deps.granted));
      const caller = callerOf(deps, context, "CreateClaims");
      const views = await held.untilSettled({ context, waitMs }, () => commands.createClaims(input, caller));
      return { claims: views.map(claimMessage) };
    },

    async releaseClaims(request, context) {
      const checks = createChecks();
      const selection = selectionOf(request);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateSelection(selection));
      const caller = callerOf(deps, context, "ReleaseClaims");
      const release = () => commands.releaseClaims(selection, caller);
      const views = await held.untilOver({ context, waitMs }, release);
      return { claims: views.map(claimMessage) };
    },

    getListToken: async () => ({ listToken: writeToken(await commands.listPosition(), listQuestion) }),

    async reconcileWorkloads(request, context) {
      const checks = createChecks();
      const position = readToken("list_token", request.listToken, listQuestion, checks) ?? "";
      const { node, namespace, live, noneLive, dryRun, reason } = request;
      const input = { position, node, namespace, live, noneLive, dryRun, reason };
      refuseAll(checks, () => validateReconcileWorkloads(input));
      validateReconcileWorkloads(input);
      const why = reason === "" ? "ReconcileWorkloads" : `ReconcileWorkloads: ${reason}`;
      const found = await reconcileWithin(deps.scopeOf(context.identity), input, (part) =>
        commands.reconcileWorkloads(part, callerOf(deps, context, why), context.signal),
      );
      return reconciledMessage(found, dryRun);
    },

    async handOver(request, context) {
      const checks = createChecks();
      const { namespace, fromWorkload, toWorkload, toNode, aliases, requestId } = request;
      const deadlineMs = durationMs("deadline", request.deadline, checks);
      const input = { namespace, fromWorkload, toWorkload, toNode, aliases, deadlineMs, requestId };
      refuseAll(checks, () => validateHandOver(input));
      const views = await commands.handOver(input, callerOf(deps, context, "HandOver"));
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
      const goal = goalFrom(request.goal, checks);
      const selection = selectionOf(request);
      refuseAll(checks, () => validateSelection(selection));
      return waitClaims(deps, selection, goal, signal);
    },

    getClaim: async ({ namespace, volume, workload, alias, uid }) => ({
      claim: claimMessage(await commands.getClaim({ namespace, volume, workload, alias, uid })),
    }),

    async listClaims(request, { identity, signal }) {
      const checks = createChecks();
      const filter = claimFilterFrom(request.filter, checks);
      const scope = deps.scopeOf(identity);
      const question = questionOf("ListClaims", filter, scope);
      const page = { ...pageFrom(request, question, checks), signal };
      refuse(checks.violations);
      const { items, next } = await listWithin(scope, filter, page, commands.listClaims);
      return { claims: items.map(claimMessage), nextPageToken: nextPageToken(next, question) };
    },

    watchClaims: (request, { identity, signal }) => watchClaims(deps, request, () => deps.scopeOf(identity), signal),
  };
};
