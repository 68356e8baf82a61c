/**
 * What happened, in the one order of the store.
 *
 * E1 A token is a position: whoever goes on from one misses nothing and is told nothing twice, whatever filter is asked with. E2 The position
 * is told at once and moves on also past what the filter leaves out, so that a quiet watch can be resumed after a restart.
 */
import { HoldfastError, invalidArgument, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  EventFilter,
  type EventServiceDefinition,
  EventSeverity,
  type WatchEventsRequest,
  type WatchEventsResponse,
} from "@holdfast/shared/gen/holdfast/v1/event";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { type CallerScope, stillSees } from "../../domain/access/caller-scope.ts";
import type { StoredEvent } from "../../domain/store-types.ts";
import type { ApiDeps } from "../api-deps.ts";
import { type Checks, createChecks, optionalId } from "../check-request.ts";
import { questionOf, readToken, writeToken } from "../page-token.ts";
import { eventMessage, fitsEvent } from "./convert-event.ts";

export type EventServiceDeps = Pick<ApiDeps, "feed" | "scopeOf">;

/** So many events may be left out before the position is told. */
const toldEvery = 200;
const maxReasons = 64;

/** E1: of any filter, and of one scope alone. */
const tokensIn = (scope: CallerScope) => {
  const question = questionOf("WatchEvents", "", scope);
  return { question, tokenAt: (position: string): string => writeToken(position, question) };
};

const filterFrom = (asked: EventFilter | undefined, checks: Checks): EventFilter => {
  const filter = asked ?? EventFilter.fromPartial({});
  for (const field of ["namespace", "volume", "workload", "node"] as const)
    optionalId(`filter.${field}`, filter[field], checks);
  if (filter.reasons.length > maxReasons) checks.complain("filter.reasons", `more than ${maxReasons}`);
  if (!Object.values(EventSeverity).includes(filter.minimumSeverity))
    checks.complain("filter.minimum_severity", "is no severity");
  return filter;
};

/** The same trouble in the words of this watch: here a token is another one. */
const trimmed = (error: unknown, tokenAt: (position: string) => string): unknown => {
  if (!isHoldfastError(error) || error.reason !== "EVENTS_TRIMMED") return error;
  const oldest = error.metadata["oldest_token"] ?? "";
  return new HoldfastError({
    kind: error.kind,
    reason: error.reason,
    message: `the history no longer reaches back to resume_token; go on from ${oldest === "" ? "an empty one" : "oldest_token"}, and list what you follow`,
    metadata: { oldest_token: oldest === "" ? "" : tokenAt(oldest) },
    cause: error,
  });
};

async function* watchEvents(
  { feed }: EventServiceDeps,
  request: WatchEventsRequest,
  scopeNow: () => CallerScope,
  signal: AbortSignal,
): AsyncGenerator<WatchEventsResponse> {
  const scope = scopeNow();
  const { question, tokenAt } = tokensIn(scope);
  const checks = createChecks();
  const filter = filterFrom(request.filter, checks);
  const after = readToken("resume_token", request.resumeToken, question, checks);
  if (checks.violations.length > 0) throw invalidArgument(checks.violations);
  const from = after ?? (await feed.head());
  yield { event: undefined, resumeToken: tokenAt(from) }; // E2
  let untold = 0;
  const told = (stored: StoredEvent): WatchEventsResponse | undefined => {
    const resumeToken = tokenAt(stored.token);
    const event = eventMessage(stored, resumeToken);
    // What is in no namespace, a node or a plugin, is for those who see all.
    if (stillSees(scope, scopeNow, event.subject?.namespace ?? "") && fitsEvent(filter, event))
      return { event, resumeToken };
    untold += 1;
    return untold < toldEvery ? undefined : { event: undefined, resumeToken };
  };
  try {
    for await (const stored of feed.watch(from, signal)) {
      const message = told(stored);
      if (message === undefined) continue;
      untold = 0;
      yield message;
    }
  } catch (error) {
    throw trimmed(error, tokenAt);
  }
}

export const createEventService = (deps: EventServiceDeps): Implementation<typeof EventServiceDefinition> => ({
  watchEvents: (request, { identity, signal }) => watchEvents(deps, request, () => deps.scopeOf(identity), signal),
});
