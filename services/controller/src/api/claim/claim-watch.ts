import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Claim, WatchClaimsRequest, WatchClaimsResponse } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { ClaimFilter, ClaimView } from "../../commands/model.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import { type CallerScope, stillSees } from "../../domain/access/caller-scope.ts";
import { blockOfClaim } from "../../domain/claim/claim.ts";
import type { StoredEvent } from "../../domain/store-types.ts";
import { listWithin } from "../access/within-scope.ts";
import type { ApiDeps } from "../api-deps.ts";
import { createChecks } from "../check-request.ts";
import { noteText } from "../event/event-note.ts";
import { questionOf } from "../page-token.ts";
import { watchResources } from "../watch-resources.ts";
import { claimFilterFrom, claimMessage } from "./convert-claim.ts";

export async function* watchClaims(
  { commands, feed }: Pick<ApiDeps, "commands" | "feed">,
  request: WatchClaimsRequest,
  scopeNow: () => CallerScope,
  signal: AbortSignal,
): AsyncGenerator<WatchClaimsResponse> {
  const scope = scopeNow();
  const checks = createChecks();
  const filter = claimFilterFrom(request.filter, checks);
  refuse(checks.violations);
  const messages = watchResources<ClaimView, Claim>({
    feed,
    question: questionOf("WatchClaims", filter, scope),
    token: request.resumeToken,
    signal,
    page: (page) => listWithin(scope, filter, page, commands.listClaims),
    message: claimMessage,
    changeOf: (event) => claimChange(commands, filter, (namespace) => stillSees(scope, scopeNow, namespace), event),
  });
  for await (const { kind, resource, resumeToken } of messages) yield { kind, claim: resource, resumeToken };
}

/** What never changes in a claim's life. */
const mayFit = (filter: ClaimFilter, claim: Pick<Claim, "namespace" | "volume" | "workload" | "node">): boolean =>
  (["namespace", "volume", "workload", "node"] as const).every(
    (field) => filter[field] === "" || filter[field] === claim[field],
  );

const fitsNow = (filter: ClaimFilter, view: ClaimView): boolean =>
  (filter.states.length === 0 || filter.states.includes(view.claim.state)) &&
  (!filter.blocked || (view.kind === "living" && blockOfClaim(view.claim) !== undefined));

/** The claim that an event is about, as it is now. One that is over has left, with its last state. */
const claimChange = async (
  commands: Pick<ApiDeps["commands"], "getClaim">,
  filter: ClaimFilter,
  sees: (namespace: string) => boolean,
  { type, body }: StoredEvent,
): Promise<{ readonly gone: boolean; readonly resource: Claim } | undefined> => {
  if (type !== "claim") return undefined;
  const key = {
    namespace: noteText(body, "namespace"),
    volume: noteText(body, "volume"),
    workload: noteText(body, "workload"),
    alias: noteText(body, "alias"),
    uid: noteText(body, "uid"),
  };
  if (!sees(key.namespace) || !mayFit(filter, { ...key, node: noteText(body, "node") })) return undefined;
  try {
    const view = await commands.getClaim(key);
    if (filter.plugin !== "" && view.kind === "living" && view.volume.plugin !== filter.plugin) return undefined;
    return { gone: view.kind === "over" || !fitsNow(filter, view), resource: claimMessage(view) };
  } catch (error) {
    // Its tombstone is gone as well: the history that is followed is a week old.
    if (isHoldfastError(error) && error.reason === "CLAIM_NOT_FOUND") return undefined;
    throw error;
  }
};
