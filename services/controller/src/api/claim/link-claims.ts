import type {
  AgentLinkServiceDefinition,
  RequestClaimsRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { VolumeTemplate } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { validateCreateClaims, validateSelection } from "../../commands/claim/validate-claims.ts";
import type { ClaimView } from "../../commands/model.ts";
import { checkId, limits } from "../../domain/limits.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { type Checks, createChecks, durationMs, refuseAll } from "../check-request.ts";
import { createClaimHold } from "./claim-hold.ts";
import { claimMessage, claimsInput, selectionOf } from "./convert-claim.ts";

type AgentLink = Implementation<typeof AgentLinkServiceDefinition>;
type Context = Parameters<AgentLink["requestClaims"]>[1];

/** The claims of a workload on the very node whose agent asks, as ClaimService gives and takes them. */
export const createLinkClaims = (deps: ApiDeps): Pick<AgentLink, "requestClaims" | "releaseClaims"> => {
  const { commands } = deps;
  const held = createClaimHold(deps);

  /** How known lives stand: nothing is made, so that a message that comes late revives nothing. */
  const watch = async (request: RequestClaimsRequest, context: Context): Promise<readonly ClaimView[]> => {
    const checks = createChecks();
    const { namespace, workload, claimUids, node } = request;
    const selection = selectionOf({ namespace, workload, aliases: [], claimUids });
    checkNode(node, checks);
    for (const field of ["claims", "afterWorkloads"] as const)
      if (request[field].length > 0)
        checks.complain(field === "claims" ? field : "after_workloads", "has to be empty with claim_uids");
    if (request.queue !== undefined) checks.complain("queue", "has to be absent with claim_uids");
    refuseTicketOfLives(request, checks);
    const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
    refuseAll(checks, () => validateSelection(selection));
    const here = async () => (await commands.selectClaims(selection)).filter(({ claim }) => claim.node === node);
    return await held.untilDecided({ context, waitMs }, here);
  };

  return {
    async requestClaims(request, context) {
      if (request.claimUids.length > 0) return { claims: (await watch(request, context)).map(claimMessage) };
      const checks = createChecks();
      const input = { ...claimsInput(request, checks), after: request.afterWorkloads };
      for (const [i, { template }] of request.claims.entries())
        onlyNewStorage(`claims[${i}].template`, template, checks);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateCreateClaims(input, deps.granted));
      const caller = callerOf(deps, context, "RequestClaims");
      const views = await held.untilSettled({ context, waitMs }, () => commands.createClaims(input, caller));
      return { claims: views.map(claimMessage) };
    },

    async releaseClaims(request, context) {
      const checks = createChecks();
      const selection = selectionOf(request);
      checkNode(request.node, checks);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseTicketOfLives(request, checks);
      refuseAll(checks, () => validateSelection(selection));
      // Whether the node may ask was judged before.
      if (request.dryRun) return { claims: [] };
      const caller = callerOf(deps, context, "ReleaseClaims");
      const release = async () => {
        // Claims of the workload on other nodes are not this node's to give back.
        const here = (await commands.selectClaims(selection)).filter(({ claim }) => claim.node === request.node);
        const views: ClaimView[] = [];
        // One request names no more; a workload may have more, by several of them.
        for (let from = 0; from < here.length; from += limits.setMembers) {
          const claimUids = here.slice(from, from + limits.setMembers).map(({ claim }) => claim.uid);
          views.push(...(await commands.releaseClaims({ ...selection, aliases: [], claimUids }, caller)));
        }
        return views;
      };
      const views = await held.untilOver({ context, waitMs }, release);
      return { claims: views.map(claimMessage) };
    },
  };
};

/** A node has nothing but empty storage made: by a secret or a source it could read more than what it has claims on. */
const onlyNewStorage = (field: string, template: VolumeTemplate | undefined, checks: Checks): void => {
  if (template === undefined) return;
  const instead = "is for ClaimService alone: a host could read by it what it has no claim on; make the claim there";
  if (Object.keys(template.secrets).length > 0) checks.complain(`${field}.secrets`, `${instead}, with stored secrets`);
  for (const source of ["snapshot", "volume"] as const)
    if (template[source] !== undefined) checks.complain(`${field}.${source}`, instead);
};

/** Lives of its own a node names without one. */
const refuseTicketOfLives = (
  { ticket, claimUids }: { readonly ticket: string; readonly claimUids: readonly string[] },
  checks: Checks,
): void => {
  if (ticket !== "" && claimUids.length > 0) checks.complain("ticket", "has to be empty with claim_uids");
};

const checkNode = (node: string, checks: Checks): void => {
  for (const { field, description } of checkId("node", node)) checks.complain(field, description);
};
