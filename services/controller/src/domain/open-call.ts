/**
 * Which plugin instance the one call of a record was given to, and whether that call may still be open there.
 *
 * O1 An intent with `via` may have a call open at that instance; an intent without `via` has none.
 * O2 An intent with `via` changes only by its own life of its controller, by another life that makes the same call at the same gate, by one
 *    that gives it to another gate and leaves a bar (bar.ts), or by a person's word.
 * O3 `via` goes when the call has ended (the plugin itself sent a status), or when it certainly never left.
 * O4 An attempt that is stored anew is as doubtful as before, and a call of it that left may be open.
 * O5 An intent that goes on at another life of its gate says so until its call has ended: that life cannot tell the end of a call of the
 *    life before.
 * O6 It goes on there only if the life before is proved to be over. A machine that took the name of the node, or a copy of it, proves nothing.
 */
import type { CallOrder } from "@holdfast/model/call-order";
import type { CallUnderWay } from "./call-under-way.ts";
import type { Moment } from "./moment.ts";
import type { Attempts, Outcome } from "./outcome.ts";

/** What the intents of volumes and of snapshots have in common. */
export interface CallSite {
  /** Controller and life that wrote it. */
  readonly issuer: string;
  readonly opId: string;
  /** An attempt had no certain answer: a later refusal does not prove that nothing happened. */
  readonly uncertainSince?: number;
  /** The plugin instance that the call is given to: a node's, or a socket beside the issuer's controller. */
  readonly via?: string;
  /** The life of the agent that holds the socket of `via`; absent for a socket beside the issuer, and in records before format 3. */
  readonly gate?: string;
  /** The node's incarnation that this life had: another one does not speak for it unless that is proved (`speaksFrom` of the node). */
  readonly gateEpoch?: number;
  /** Since then a call of this intent, given to `via`, has no answer of the plugin. */
  readonly openSince?: number;
  /** The attempt that leaves is not answered yet, and has lasted for a while: for people alone. */
  readonly call?: CallUnderWay;
  /** An earlier life of the gate may have that call: the life that is there now knows nothing of it. */
  readonly beyondGate?: true;
}

/** A call that was given to a gate, and was overtaken by the same call at another gate: see bar.ts. The seat is that of its intent. */
export interface CallBar extends Seat {
  readonly op: string;
  /** The life that gave the call away. */
  readonly issuer: string;
  readonly beyondGate?: true;
  /** Of the overtaken intent: names the bar. */
  readonly opId: string;
  readonly since: number;
  /** The gate was asked to let go of the record's call; who asked last, and under which commit. */
  readonly asked?: Pick<CallSite, "issuer" | "opId">;
  readonly attempts: Attempts;
}

/** Where a call goes. */
export interface Seat {
  readonly via: string;
  readonly gate?: string;
  readonly gateEpoch?: number;
}

/** The seat of a call as it was stored. */
export const seatOfCall = (via: string, { gate, gateEpoch }: Pick<CallSite, "gate" | "gateEpoch">): Seat => ({
  via,
  ...(gate === undefined ? {} : { gate }),
  ...(gateEpoch === undefined ? {} : { gateEpoch }),
});

/** A call may leave now. One that changes something carries its order. */
export interface Leave {
  readonly order?: CallOrder;
  /** Told as it leaves, with the time that its answer is waited for. */
  readonly begun?: (method: string, deadlineMs: number) => void;
}

interface Calling {
  readonly intent?: CallSite;
}

/** How an attempt left its call. */
export type CallEnd = "ended" | "open" | "not-sent";

/** What is known of the call of an intent; a person's word may stand for an attempt. */
export interface CallNews {
  readonly opId: string;
  readonly end: CallEnd;
}

export const endOf = (outcome: Outcome<unknown>): CallEnd =>
  outcome.kind === "done" ? "ended" : (outcome.failure.call ?? "open");

/** A call of the record may be open at an instance of its plugin. */
export const mayBeOpen = ({ intent }: Calling): boolean => intent?.via !== undefined;

const changed = <R extends Calling>(record: R, intent: CallSite): R => ({ ...record, intent });

/** Of an attempt that is over, or another life's. */
const withoutCall = ({ call: _c, ...rest }: CallSite): CallSite => rest;

const withoutVia = (intent: CallSite): CallSite => {
  const { via: _v, gate: _g, gateEpoch: _e, openSince: _o, beyondGate: _b, ...rest } = withoutCall(intent);
  return rest;
};

const seated = ({ via: _v, gate: _g, gateEpoch: _e, ...rest }: CallSite, seat: Seat): CallSite => ({
  ...rest,
  ...seat,
});

/** O3. A call that an earlier attempt left open is not ended by one that never left. */
export const afterCall = <R extends Calling>(before: R, end: CallEnd, at: Moment): R => {
  if (before.intent?.via === undefined) return before;
  const record = before.intent.call === undefined ? before : changed(before, withoutCall(before.intent));
  const intent = record.intent ?? before.intent;
  if (end === "open")
    return intent.openSince === undefined
      ? changed(record, { ...intent, openSince: at.now, uncertainSince: intent.uncertainSince ?? at.now })
      : record;
  return end === "not-sent" && intent.openSince !== undefined ? record : changed(record, withoutVia(intent));
};

/** The intent is this life's from now on, as doubtful as it was; another life's call may have done its work. */
const taken = (intent: CallSite, at: Moment): CallSite => ({
  ...withoutCall(intent),
  issuer: at.issuer,
  opId: at.opId,
  ...(intent.uncertainSince === undefined && intent.issuer !== at.issuer ? { uncertainSince: at.now } : {}),
});

/** An intent that no instance was given gets one, durable before the call leaves. */
export const assigned = <R extends Calling>(record: R, opId: string, seat: Seat, at: Moment): R => {
  const { intent } = record;
  return intent?.opId !== opId || intent.via !== undefined ? record : changed(record, seated(taken(intent, at), seat));
};

/** Another life goes on with the same call at the same instance: the one before is over, or a gate compares the calls of both. */
export const inherited = <R extends Calling>(record: R, opId: string, seat: Seat, at: Moment): R => {
  const { intent } = record;
  if (intent?.opId !== opId || intent.via !== seat.via) return record;
  const sameLife = intent.gate === seat.gate && (seat.gate !== undefined || intent.issuer === at.issuer);
  const open = { ...taken(intent, at), openSince: intent.openSince ?? at.now };
  return changed(record, seated(sameLife ? open : { ...open, beyondGate: true }, seat)); // O5
};

/** O4: for the sake of its place among the commits; `left` tells how the attempts before it left the call. */
export const storedAnew = <R extends Calling>(record: R, left: CallNews, seat: Seat, at: Moment): R => {
  const { intent } = record;
  if (intent?.opId !== left.opId || intent.issuer !== at.issuer || intent.via !== seat.via) return record;
  const mayBeElsewhere = intent.gate !== seat.gate && (intent.openSince !== undefined || left.end === "open");
  const next = { ...withoutCall(intent), opId: at.opId, ...(mayBeElsewhere ? ({ beyondGate: true } as const) : {}) }; // O5
  const anew = changed(record, seated(next, seat));
  return left.end === "open" ? afterCall(anew, "open", at) : anew;
};

/** A person says that the call has ended. What it did stays in doubt; its answer, if one comes, is nobody's. */
export const takenOver = <R extends Calling>(record: R, at: Moment): R => {
  const { intent } = record;
  return intent?.via === undefined
    ? record
    : changed(record, { ...withoutVia(intent), opId: at.opId, uncertainSince: intent.uncertainSince ?? at.now });
};

interface Barred extends Calling {
  readonly bars?: readonly { readonly opId: string }[];
}

/**
 * O2: the change would drop or replace an intent whose call may be open, and leave no bar in its place; with news that leave it open, its
 * instance at least stays.
 */
export const dropsOpenCall = (before: Calling, after: Barred | null, news?: CallNews): boolean => {
  const { intent } = before;
  if (intent?.via === undefined || after?.bars?.some(({ opId }) => opId === intent.opId) === true) return false;
  const { opId, via } = after?.intent ?? {};
  if (news?.opId !== intent.opId) return opId !== intent.opId || via !== intent.via;
  const open = news.end === "open" || (news.end === "not-sent" && intent.openSince !== undefined);
  return open && via !== intent.via;
};

/** The call of the intent has lasted for a while; people are told. */
export const lasting = <R extends Calling>(record: R, opId: string, call: CallUnderWay): R => {
  const { intent } = record;
  return intent?.opId !== opId || intent.via === undefined ? record : changed(record, { ...intent, call });
};

/** The instance is stored with the intent that is new in this commit. */
export const givenTo = <R extends Calling>(
  record: R,
  at: Moment,
  route: ((record: R) => Seat | undefined) | undefined,
): R => {
  const { intent } = record;
  if (intent?.opId !== at.opId || intent.issuer !== at.issuer || intent.via !== undefined) return record;
  const seat = route?.(record);
  return seat === undefined ? record : changed(record, seated(intent, seat));
};
