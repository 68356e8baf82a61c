/**
 * Whose turn a call is, before its step runs: a call leaves only under an intent of this life that names the instance it is given to.
 * An intent without an instance is taken by the controller that drives the plugin; one of a former life of this controller is gone on
 * with; one of another controller is left alone, however long it takes.
 */
import type { CallSite } from "../../domain/open-call.ts";
import type { Failure } from "../../domain/outcome.ts";

/** Which calls are this controller's to make. */
export interface CallRights {
  /** This controller, in this life. */
  readonly issuer: string;
  /** A life of this very controller that is proved to be over. */
  readonly isFormerLife: (issuer: string) => boolean;
  /** That life of a controller is over, or was silent for so long that others go on with its work. */
  readonly isAway: (issuer: string) => boolean;
  /** Whether it takes the calls of the plugin about the record `key` that no controller has taken. */
  readonly drives: (plugin: string, key: string) => boolean;
  /** The instance that the record's call would go to, or the one named by `via`, if that can be called now. */
  readonly instance: (target: { readonly plugin: string; readonly via?: string | undefined }) => string | undefined;
}

export type Turn =
  /** The step may run. */
  | { readonly kind: "run" }
  | { readonly kind: "take"; readonly via: string }
  | { readonly kind: "inherit" }
  | { readonly kind: "wait" }
  | { readonly kind: "blocked"; readonly failure: Failure };

interface Called {
  readonly plugin: string;
  readonly updatedAt: number;
  readonly intent?: CallSite & { readonly op: string };
}

/** Between two looks at a call that is another controller's to make. */
export const relookMs = 2_000;
/** So old is a call of another controller before who waits for it is told that it may never go on. */
const patienceMs = 10_000;

const run: Turn = { kind: "run" };

export const turnOf = (rights: CallRights, key: string, record: Called, now: number): Turn => {
  const { plugin, intent } = record;
  const { issuer, isFormerLife, drives, instance } = rights;
  if (intent?.via === undefined) {
    if (!drives(plugin, key)) return { kind: "wait" };
    if (intent === undefined || intent.op === "validate") return run;
    const via = instance(record);
    return via === undefined ? run : { kind: "take", via };
  }
  const { via, openSince } = intent;
  if (intent.issuer === issuer)
    return openSince !== undefined && instance({ ...record, via }) === undefined
      ? { kind: "blocked", failure: mayBeOpen(intent, `plugin instance "${via}" cannot be called now`) }
      : run;
  if (isFormerLife(intent.issuer)) return { kind: "inherit" };
  return drives(plugin, key) && now - record.updatedAt >= patienceMs
    ? { kind: "blocked", failure: mayBeOpen(intent, "that controller has said nothing of it for a while") }
    : { kind: "wait" };
};

const mayBeOpen = ({ op, via, issuer, openSince }: CallSite & { readonly op: string }, why: string): Failure => ({
  reason: "CALL_MAY_BE_OPEN",
  message: `the call "${op}" was given to plugin instance "${via}" by controller ${issuer}${openSince === undefined ? "" : `, has no answer since ${new Date(openSince).toISOString()}`} and may be open there: ${why}`,
  advice: "block",
});

export const createCallRights = (
  lives: Pick<CallRights, "issuer" | "isFormerLife">,
  drivers: Pick<CallRights, "drives" | "isAway"> | undefined,
  { instance }: Pick<CallRights, "instance">,
): CallRights => ({
  ...lives,
  instance,
  drives: drivers?.drives ?? (() => true),
  isAway: drivers?.isAway ?? lives.isFormerLife,
});
