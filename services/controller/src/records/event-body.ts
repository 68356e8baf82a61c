import type { Note } from "../domain/change.ts";
import type { Moment } from "../domain/moment.ts";

/** What every event of a change carries besides its own: when, by whom and why, in which trace. */
export const eventBody = (note: Pick<Note, "body">, rev: number, { now, issuer, by, traceId }: Moment): string =>
  JSON.stringify({
    ...note.body,
    rev,
    at: now,
    who: by?.who ?? `controller ${issuer}`,
    why: by?.why ?? "reconcile",
    ...(traceId === undefined ? {} : { trace: traceId }),
  });

/** Of a W3C traceparent. */
export const traceIdOf = (traceparent: string | undefined): string | undefined =>
  /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent ?? "")?.[1];

/** Where a change comes from. */
export interface Cause {
  /** Goes into the last error of failed attempts. */
  readonly traceId?: string | undefined;
  /** Who asks for it; events tell it. */
  readonly by?: { readonly who: string; readonly why: string; readonly traceparent?: string } | undefined;
}

export const causeOf = ({ traceId, by }: Cause = {}): Pick<Moment, "traceId" | "by"> => {
  const trace = traceId ?? traceIdOf(by?.traceparent);
  return {
    ...(trace === undefined ? {} : { traceId: trace }),
    ...(by === undefined ? {} : { by: { who: by.who, why: by.why } }),
  };
};
