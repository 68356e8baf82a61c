import { traceIdOf } from "@holdfast/model/trace-id";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Note } from "../domain/change.ts";
import type { Moment } from "../domain/moment.ts";
import { defaultRetry, type RetryRule } from "../domain/retry.ts";
import type { Asks } from "../domain/steps.ts";
import type { Ids } from "../ports.ts";

const writer = (issuer: string): string => `controller ${issuer}`;

/**
 * What every event of a change carries besides its own: when, by whom and why, in which trace, which life of a controller wrote it, and
 * what the record asks of other controllers then.
 */
export const eventBody = (
  note: Pick<Note, "body">,
  rev: number,
  { now, issuer, by, traceId }: Moment,
  { untaken, anyone }: Asks,
): string =>
  JSON.stringify({
    ...note.body,
    rev,
    ...(untaken ? { untaken } : {}),
    ...(anyone ? { anyone } : {}),
    at: now,
    who: by?.who ?? writer(issuer),
    why: by?.why ?? "reconcile",
    // Where nobody asked for the change, `who` is the writer.
    ...(by === undefined ? {} : { issuer }),
    ...(traceId === undefined ? {} : { trace: traceId }),
  });

/** Where a change comes from. */
export interface Cause {
  /** Goes into the last error of failed attempts. */
  readonly traceId?: string | undefined;
  /** Who asks for it; events tell it. */
  readonly by?: { readonly who: string; readonly why: string; readonly traceparent?: string } | undefined;
}

const causeOf = ({ traceId, by }: Cause = {}): Pick<Moment, "traceId" | "by"> => {
  const trace = traceId ?? traceIdOf(by?.traceparent);
  return {
    ...(trace === undefined ? {} : { traceId: trace }),
    ...(by === undefined ? {} : { by: { who: by.who, why: by.why } }),
  };
};

/** The moment of each decision, with an id of its own. */
export const momentsOf =
  (deps: {
    readonly clock: Pick<Clock, "now">;
    readonly ids: Ids;
    readonly issuer: string;
    readonly retry?: RetryRule | undefined;
  }) =>
  (cause?: Cause): Moment => ({
    now: deps.clock.now(),
    issuer: deps.issuer,
    opId: deps.ids.uuid(),
    random: deps.ids.random(),
    retry: deps.retry ?? defaultRetry,
    ...causeOf(cause),
  });
