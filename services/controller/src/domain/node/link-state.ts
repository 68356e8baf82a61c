/**
 * How controllers find out, through the store alone, that none of them has a node's link: the stream that its agent keeps. A controller
 * without the link writes a doubt into the node's record, and a controller that has the link removes it.
 *
 * LS1 A doubt that stands for three quarters of a grace makes the link lost; that is never sooner than a grace after the link of any
 * controller ended which could still answer. LS2 A controller whose own link has ended since the doubt was written puts its own doubt in
 * the place of that one, which begins the wait anew. LS3 An answered doubt is written again after ten graces: the controller that
 * answered may have died since. LS4 A controller that waits for a link which it never had gives the agent a whole grace to dial.
 */

/** A controller asks whether any other has the node's link. */
export interface LinkDoubt {
  readonly by: string;
  /** Wall clock, for display. With the controller it tells one doubt from the next. */
  readonly at: number;
}

/** What stands in a node's record about its link. */
export interface LinkMarks {
  readonly linkDoubt?: LinkDoubt;
  /** No controller had the link for a grace. Wall clock, for display. */
  readonly linkLost?: { readonly at: number };
}

/** `ended`: the controller had the link. `awaited`: it never had it, since it has just started, or the agent has. */
export type AbsenceKind = "ended" | "awaited";

/** One controller is without the link of one node. Times are those of its own monotonic clock, in milliseconds. */
export interface Absence {
  /** Of the first doubt that it may write. */
  readonly doubtFrom: number;
  /** Of the next one while no doubt stands. */
  readonly doubtAt: number;
  readonly lost: boolean;
  /** The doubt that stands, and since when it is seen here. */
  readonly doubt: { readonly name: string; readonly seenAt: number } | undefined;
}

export interface LinkDecision {
  readonly step: "doubt" | "lose" | "rest";
  /** When the step is due; for `rest`, when the next one will be. */
  readonly due: number;
}

/** In graces. */
const firstDoubt: Readonly<Record<AbsenceKind, number>> = { ended: 1 / 3, awaited: 1 };
const doubtStands = 3 / 4;
const restsAnswered = 10;
/** Controllers that lose a link at about the same time need one doubt, and not one each. */
const sameTime = 1 / 12;

export const doubtName = ({ linkDoubt }: LinkMarks): string | undefined =>
  linkDoubt === undefined ? undefined : `${linkDoubt.by} ${linkDoubt.at}`;

export const isMarked = ({ linkDoubt, linkLost }: LinkMarks): boolean =>
  linkDoubt !== undefined || linkLost !== undefined;

export const withoutMarks = <R extends LinkMarks>(record: R): Omit<R, keyof LinkMarks> => {
  const { linkDoubt: _answered, linkLost: _back, ...kept } = record;
  return kept;
};

export const absenceFrom = (kind: AbsenceKind, marks: LinkMarks, now: number, graceMs: number): Absence => {
  const doubtFrom = now + firstDoubt[kind] * graceMs;
  const name = doubtName(marks);
  return {
    doubtFrom,
    doubtAt: doubtFrom,
    lost: marks.linkLost !== undefined,
    doubt: name === undefined ? undefined : { name, seenAt: now },
  };
};

/** The record is read, or was written. A mark that another controller has removed is its answer (LS3). */
export const absenceSeeing = (
  before: Absence,
  marks: LinkMarks,
  { own, now, graceMs }: { readonly own: boolean; readonly now: number; readonly graceMs: number },
): Absence => {
  const answered = !own && (before.lost || before.doubt !== undefined) && !isMarked(marks);
  const name = doubtName(marks);
  return {
    doubtFrom: before.doubtFrom,
    doubtAt: answered ? now + restsAnswered * graceMs : before.doubtAt,
    lost: marks.linkLost !== undefined,
    doubt: name === undefined ? undefined : name === before.doubt?.name ? before.doubt : { name, seenAt: now },
  };
};

const at = (step: "doubt" | "lose", due: number, now: number): LinkDecision => ({
  step: now < due ? "rest" : step,
  due,
});

export const linkDecision = (
  { lost, doubt, doubtFrom, doubtAt }: Absence,
  now: number,
  graceMs: number,
): LinkDecision => {
  if (lost) return { step: "rest", due: Number.POSITIVE_INFINITY };
  if (doubt === undefined) return at("doubt", doubtAt, now);
  if (doubt.seenAt < doubtFrom - sameTime * graceMs) return at("doubt", doubtFrom, now); // LS2
  return at("lose", doubt.seenAt + doubtStands * graceMs, now); // LS1
};
