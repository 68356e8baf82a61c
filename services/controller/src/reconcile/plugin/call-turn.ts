/**
 * Whose turn a call is, before its step runs: a call leaves only under an intent of this life that names the instance it is given to.
 * An intent without an instance is taken by the controller whose share the record is. One with an instance stays with its life for as
 * long as that life is there. Afterwards it goes on at the same instance, if this controller reaches its gate: the gate of an agent
 * compares the calls of both lives, and the sockets beside a controller pass to its next life. If not, it is given to another instance,
 * behind a bar.
 */
import { isSeatOf, mostBars } from "../../domain/bar.ts";
import { type CallSite, type Seat, seatOfCall } from "../../domain/open-call.ts";
import type { Failure } from "../../domain/outcome.ts";
import { isOnNode } from "../../domain/plugin/instance-name.ts";

/** Which calls are this controller's to make. */
export interface CallRights {
  /** This controller, in this life. */
  readonly issuer: string;
  /** A life of this very controller that is proved to be over. */
  readonly isFormerLife: (issuer: string) => boolean;
  /** Whether it takes a call of the plugin about the record `key` that no controller has taken. */
  readonly drives: (plugin: string, key: string) => boolean;
  /** That life of a controller has said nothing for a while: no proof of anything. */
  readonly isAway: (issuer: string) => boolean;
  /** The instance that the record's call would go to, or the one named by `via`, if that can be called now. */
  readonly instance: (target: {
    readonly plugin: string;
    readonly via?: string | undefined;
    readonly gateEpoch?: number | undefined;
  }) => Seat | undefined;
  /** The store's format has bars. */
  readonly bars: () => boolean;
}

export type Turn =
  /** The step may run. */
  | { readonly kind: "run" }
  | { readonly kind: "take"; readonly seat: Seat }
  /** The same call at the same instance, under this life. */
  | { readonly kind: "inherit"; readonly seat: Seat }
  /** The same call at another instance, and a bar for the one before; without a seat another controller chooses the instance. */
  | { readonly kind: "overtake"; readonly seat?: Seat }
  | { readonly kind: "wait" }
  | { readonly kind: "blocked"; readonly failure: Failure };

interface Called {
  readonly plugin: string;
  readonly updatedAt: number;
  readonly intent?: CallSite & { readonly op: string };
  readonly bars: readonly unknown[];
}

/** Between two looks at a call that is another controller's to make. */
export const relookMs = 2_000;
/** So long the gate of an own call is given to come back before another one gets the call. It decides nothing about safety. */
export const patienceMs = 5_000;

const run: Turn = { kind: "run" };
const wait: Turn = { kind: "wait" };

export const turnOf = (rights: CallRights, key: string, record: Called, now: number): Turn => {
  const { plugin, intent } = record;
  const { issuer, isFormerLife, drives, isAway, instance } = rights;
  if (intent?.via === undefined) {
    if (!drives(plugin, key)) return wait;
    if (intent === undefined || intent.op === "validate") return run;
    const seat = instance(record);
    return seat === undefined ? run : { kind: "take", seat };
  }
  const { via, gateEpoch, openSince } = intent;
  const there = (): Seat | undefined => instance({ ...record, via, gateEpoch });
  if (isFormerLife(intent.issuer)) return { kind: "inherit", seat: there() ?? seatOfCall(via, intent) };
  if (intent.issuer === issuer)
    return openSince === undefined || there() !== undefined
      ? run
      : elsewhere(rights, key, record, { ...intent, via }, `plugin instance "${via}" cannot be called now`, now);
  if (!drives(plugin, key) || !isAway(intent.issuer)) return wait;
  const seat = isOnNode(via) ? there() : undefined;
  return seat === undefined
    ? elsewhere(rights, key, record, { ...intent, via }, "that controller has said nothing for a while", now)
    : { kind: "inherit", seat };
};

type Given = CallSite & Required<Pick<CallSite, "via">> & { readonly op: string };

/** The gate does not answer: another one gets the call, or whoever waits for it is told. */
const elsewhere = (
  { issuer, drives, instance, bars }: CallRights,
  key: string,
  record: Called,
  intent: Given,
  why: string,
  now: number,
): Turn => {
  // Of a call that names no life of its agent nobody can ask that life.
  const askable = intent.gate !== undefined || !isOnNode(intent.via);
  const overtakes = bars() && askable && record.bars.length < mostBars;
  const found = overtakes ? instance(record) : undefined;
  const other = found === undefined || isSeatOf(intent, issuer, found) ? undefined : found;
  // Where this controller has no other instance, one that shares the plugin may have.
  const handsOn = overtakes && intent.issuer === issuer && !drives(record.plugin, key);
  if (other === undefined && !handsOn) return { kind: "blocked", failure: mayBeOpen(intent, why) };
  const early = intent.issuer === issuer && now - (intent.openSince ?? now) < patienceMs;
  return early ? wait : { kind: "overtake", ...(other === undefined ? {} : { seat: other }) };
};

const mayBeOpen = ({ op, via, issuer, openSince }: Given, why: string): Failure => ({
  reason: "CALL_MAY_BE_OPEN",
  message: `the call "${op}" was given to plugin instance "${via}" by controller ${issuer}${openSince === undefined ? "" : `, has no answer since ${new Date(openSince).toISOString()}`} and may be open there: ${why}`,
  advice: "block",
});

export const createCallRights = (
  lives: Pick<CallRights, "issuer" | "isFormerLife"> & Partial<Pick<CallRights, "isAway">>,
  drivers: Pick<CallRights, "drives" | "isAway"> | undefined,
  { instance }: Pick<CallRights, "instance">,
  bars: CallRights["bars"],
): CallRights => ({
  isAway: lives.isFormerLife,
  drives: () => true,
  ...lives,
  instance,
  bars,
  ...(drivers && { drives: drivers.drives, isAway: drivers.isAway }),
});
