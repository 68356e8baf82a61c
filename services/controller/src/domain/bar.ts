/**
 * Bars: the call of a record (a volume, a snapshot, a group) was given to a gate that does not answer, and the same call at another gate has
 * overtaken it. The overtaken call may still do its work, behind all that came since.
 *
 * BR1 The bar is stored in the commit that gives the call to the other gate.
 * BR2 While it stands, nothing begins that the overtaken call could harm (`barred`); everything else of the record goes on.
 * BR3 It is lifted when the overtaken call has ended, as its gate says, the next life of its gate finds, or a person says. In the same
 *     commit an attachment that the call may have made, and that no record owns, is owed its detach; a snapshot or a group that was
 *     deleted meanwhile, and stayed for its bars, goes with the last of them (snapshot/snapshot-bar.ts). An answer of the
 *     gate counts for the question that was stored last alone: the repeat of that question may be on its way, and needs the bar.
 * BR4 A record has at most `mostBars`; with so many its call is not given to yet another gate.
 */
import { accessRules } from "@holdfast/model/access";
import { type Change, noChange, volumeNote } from "./change.ts";
import type { Moment } from "./moment.ts";
import { type CallBar, type CallSite, type Seat, seatOfCall } from "./open-call.ts";
import { type Attempts, type Failure, noAttempts } from "./outcome.ts";
import { retryDelay, triesAt } from "./retry.ts";
import type { Bar, VolumeRecord } from "./volume/volume.ts";

export const mostBars = 8;

/** A record of any kind that has bars. */
export interface Barred {
  readonly intent?: CallSite & { readonly op: string };
  readonly bars: readonly CallBar[];
  readonly updatedAt: number;
}

/** What a gate says that was asked to let go of a record's call. */
export type GateAnswer =
  | { readonly kind: "idle" }
  /** `in-doubt`: none is open, and one is over without an answer of the plugin: a call that is made now may tell more. */
  | { readonly kind: "open" | "in-doubt"; readonly words: string }
  /** It does not answer, or is another life than the one that had the call. */
  | { readonly kind: "away"; readonly words: string };

/** What must not begin, by the call that may be open. */
type Kept = "any grant" | "grants of the pair" | "create" | "delete" | "expand" | "modify";

const barred: Record<Bar["op"], (bar: Pick<Bar, "attachment">) => Kept> = {
  attach: ({ attachment }) =>
    accessRules[attachment?.accessMode ?? "UNKNOWN"].manyNodes ? "grants of the pair" : "any grant",
  detach: () => "grants of the pair",
  // The same name may be given storage again.
  delete: () => "create",
  create: () => "delete",
  expand: () => "expand",
  modify: () => "modify",
};

interface Pair {
  readonly node: string;
  /** The plugin's name for the node: a node of another name may have it. */
  readonly nodeId: string;
}

const isOfPair = ({ node, attachment }: Bar, pair: Pair): boolean =>
  node === pair.node || (pair.nodeId !== "" && attachment?.nodeId === pair.nodeId);

/** The bar that keeps the node from a grant. */
export const grantBar = (volume: VolumeRecord, pair: Pair): Bar | undefined =>
  volume.bars.find((bar) => {
    const what = barred[bar.op](bar);
    return what === "any grant" || bar.onlyUnused === true || (what === "grants of the pair" && isOfPair(bar, pair));
  });

/** The bars of the very pair: an overtaken call may still attach or detach there. */
export const pairBars = (volume: VolumeRecord, pair: Pair): readonly Bar[] =>
  volume.bars.filter((bar) => isOfPair(bar, pair));

/** The bar that keeps the call of the volume, snapshot or group from its beginning. */
export const callBar = <B extends Pick<Bar, "op" | "attachment">>(
  { bars }: { readonly bars: readonly B[] },
  op: "create" | "delete" | "expand" | "modify",
): B | undefined => bars.find((bar) => barred[bar.op](bar) === op);

/** Finds out whether the overtaken call has ended. */
export interface LiftStep {
  readonly do: "lift";
  readonly lane: `bar ${string}`;
  readonly bar: string;
}

/** Each bar by itself: the gate of one may answer while that of another does not. */
export const liftSteps = (
  { bars }: Pick<Barred, "bars">,
  now: number,
  hurry: boolean,
): readonly { readonly step: LiftStep; readonly at: number }[] =>
  bars.map(({ opId, attempts }) => ({
    step: { do: "lift", lane: `bar ${opId}`, bar: opId },
    at: hurry ? 0 : triesAt(attempts, now),
  }));

/** The instance that the bar's call was given to, apart from all others of that name. */
export const isSeatOf = (bar: Pick<Bar, "via" | "gate" | "issuer">, issuer: string, { via, gate }: Seat): boolean =>
  bar.via === via && bar.gate === gate && (gate !== undefined || bar.issuer === issuer);

/** What the call says that the record may not say any more when the call is repeated. */
const wordsOf = (
  { capacity: { required, limit }, mutableParameters, expansion, modification }: VolumeRecord,
  op: Bar["op"],
): Pick<Bar, "size" | "onlyUnused" | "parameters"> => {
  if (op === "create") return { size: { required, limit }, parameters: mutableParameters };
  if (op === "expand" && expansion !== undefined)
    return { size: expansion.target, ...(expansion.onlyUnused ? { onlyUnused: true } : {}) };
  return op === "modify" && modification !== undefined ? { parameters: modification.target } : {};
};

/**
 * BR1: the same call at another gate, or at one that another controller chooses, as one whose former attempt is in doubt. `undo`: what a
 * repeat of the call, or its undo, needs of the record as it is now.
 */
export const overtaken = <R extends Barred>(
  record: R,
  opId: string,
  seat: Seat | undefined,
  at: Moment,
  undo: object = {},
): R => {
  const { intent } = record;
  if (intent?.opId !== opId || intent.via === undefined) return record;
  if (record.bars.length >= mostBars) return record; // BR4
  if (seat !== undefined && isSeatOf({ ...intent, via: intent.via }, at.issuer, seat)) return record;
  const { via, gate: _g, gateEpoch: _e, beyondGate, openSince: _o, ...rest } = intent;
  const bar: CallBar = {
    ...undo,
    op: intent.op,
    issuer: intent.issuer,
    ...seatOfCall(via, intent),
    ...(beyondGate === undefined ? {} : { beyondGate }),
    opId,
    since: at.now,
    attempts: noAttempts,
  };
  return {
    ...record,
    intent: {
      ...rest,
      ...seat,
      issuer: at.issuer,
      opId: at.opId,
      uncertainSince: intent.uncertainSince ?? at.now,
    },
    bars: [...record.bars, bar],
    updatedAt: at.now,
  };
};

export const volumeOvertaken = (
  volume: VolumeRecord,
  opId: string,
  seat: Seat | undefined,
  at: Moment,
): VolumeRecord => {
  const { intent, attachments } = volume;
  if (intent === undefined || intent.op === "validate") return volume;
  const node = intent.node ?? "";
  const attachment = attachments[node];
  return overtaken(volume, opId, seat, at, {
    node,
    ...(attachment === undefined ? {} : { attachment }),
    ...wordsOf(volume, intent.op),
  });
};

const told = (volume: VolumeRecord): Change => ({ volume, ended: [], notes: [volumeNote(volume)] });

const withBar = <R extends Barred>(record: R, opId: string, change: (bar: CallBar) => CallBar, at: Moment): R =>
  record.bars.some((bar) => bar.opId === opId)
    ? { ...record, bars: record.bars.map((bar) => (bar.opId === opId ? change(bar) : bar)), updatedAt: at.now }
    : record;

const nextAttempt = ({ attempts }: CallBar, at: Moment): Pick<Attempts, "count" | "nextTry"> => ({
  count: attempts.count + 1,
  nextTry: at.now + retryDelay(attempts.count, at.retry, at.random),
});

/** The gate is about to be asked; the next time is later, if this one brings nothing. */
export const barAsked = <R extends Barred>(record: R, opId: string, at: Moment): R =>
  withBar(
    record,
    opId,
    (bar) => ({
      ...bar,
      asked: { issuer: at.issuer, opId: at.opId },
      attempts: { ...bar.attempts, ...nextAttempt(bar, at) },
    }),
    at,
  );

/** The gate has answered that it is not over. */
export const barStands = <R extends Barred>(record: R, opId: string, { reason, message }: Failure, at: Moment): R =>
  withBar(
    record,
    opId,
    (bar) => ({ ...bar, attempts: { ...bar.attempts, lastError: { reason, message, at: at.now } } }),
    at,
  );

const pairOf = ({ attachments }: VolumeRecord, { attachment }: Bar) =>
  attachment && Object.values(attachments).find(({ nodeId }) => nodeId === attachment.nodeId);

/** A pair that the record has anyway: what the overtaken call made there is what the record says. */
export const isOwnedPair = (volume: VolumeRecord, bar: Bar): boolean => pairOf(volume, bar) !== undefined;

/** BR3: the overtaken call of the volume has ended. */
export const barLifted = (volume: VolumeRecord, opId: string, at: Moment): Change => {
  const bar = volume.bars.find((one) => one.opId === opId);
  if (bar === undefined) return noChange(volume);
  const lifted = { ...volume, bars: volume.bars.filter((one) => one !== bar), updatedAt: at.now };
  const { op, node, attachment } = bar;
  if (op !== "attach" || attachment === undefined) return told(lifted);
  const pair = pairOf(volume, bar);
  // The detach that is under way may have been done before the late attach was: only one that follows takes that away.
  if (pair?.state === "DETACHING") return noChange(volume);
  if (pair !== undefined) return told(lifted);
  // Another attachment has the name of the node: the undo has no place in the record before that one is gone.
  if (volume.attachments[node] !== undefined) return noChange(volume);
  const { paused: _p, ...kept } = attachment;
  const late = { ...kept, state: "DETACHING", owed: { why: "late", since: at.now, attempts: noAttempts } } as const;
  return told({ ...lifted, attachments: { ...volume.attachments, [node]: late } });
};
