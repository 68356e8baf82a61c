import type { ControllerLinkServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { validateCreateClaims, validateSelection } from "../commands/validate-claims.ts";
import { checkId } from "../domain/limits.ts";
import { type ApiDeps, callerOf } from "./api-deps.ts";
import { createChecks, durationMs, refuseAll } from "./check-request.ts";
import { createClaimHold } from "./claim-hold.ts";
import { claimMessage, claimsInput, selectionOf } from "./convert-claim.ts";
import { notImplemented } from "./unimplemented.ts";

type LinkService = Implementation<typeof ControllerLinkServiceDefinition>;

export interface LinkClaimsDeps extends ApiDeps {
  /** Rejects when the caller may not speak for the node. */
  readonly checkCaller: (node: string, context: Parameters<LinkService["requestClaims"]>[1]) => void;
}

/** The claims of a workload on the very node whose agent asks, as ClaimService gives and takes them. */
export const createLinkClaims = (deps: LinkClaimsDeps): Pick<LinkService, "requestClaims" | "releaseClaims"> => {
  const { commands, checkCaller } = deps;
  const held = createClaimHold(deps);
  return {
    async requestClaims(request, context) {
      const checks = createChecks();
      const input = claimsInput(request, checks);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateCreateClaims(input));
      checkCaller(request.node, context);
      if (request.afterWorkloads.length > 0)
        throw notImplemented("/holdfast.internal.v1.ControllerLinkService/RequestClaims: after_workloads");
      const caller = callerOf(deps, context, "RequestClaims");
      const views = await held.untilSettled({ context, waitMs }, () => commands.createClaims(input, caller));
      return { claims: views.map(claimMessage) };
    },

    async releaseClaims(request, context) {
      const checks = createChecks();
      const selection = selectionOf(request);
      for (const { field, description } of checkId("node", request.node)) checks.complain(field, description);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateSelection(selection));
      checkCaller(request.node, context);
      const caller = callerOf(deps, context, "ReleaseClaims");
      const release = async () => {
        // Claims of the workload on other nodes are not this node's to give back.
        const here = (await commands.selectClaims(selection)).filter(({ claim }) => claim.node === request.node);
        const claimUids = here.map(({ claim }) => claim.uid);
        return claimUids.length === 0 ? [] : commands.releaseClaims({ ...selection, aliases: [], claimUids }, caller);
      };
      const views = await held.untilOver({ context, waitMs }, release);
      return { claims: views.map(claimMessage) };
    },
  };
};
