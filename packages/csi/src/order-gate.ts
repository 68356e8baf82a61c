/**
 * Which calls may leave for a plugin, by the order in which their attempts were stored: a call that was held on its way is refused once a
 * later one of its subject has run. What is open at the plugin is known to open-calls.ts alone.
 *
 * G1 An order above the highest of its subject may run, and is the highest once it does. G2 The highest itself, with the same operation,
 * joins its call or gets the final answer of it; it never runs after a final answer, and runs again after any other. G3 Every other order
 * is stale. G4 So is an order of a lower generation than one that came before, or than was promised, whatever its subject is. G5 Memory is
 * bounded: subjects that are forgotten share one floor, and no order runs that is not above it. A subject with an open call is not forgotten.
 * G6 An order to which a subject was raised is the order of no call: neither an equal nor a lower one runs after it. An order below the
 * highest, or below a floor that may hold the highest, raises nothing.
 */

import type { CallOrder, CommitOrder } from "@holdfast/model/call-order";

/** What is known of a subject. */
interface Mark<A> {
  readonly highest: CallOrder;
  /** What the call of the highest order asks for; undefined: the subject was raised to it (G6). */
  readonly method: string | undefined;
  readonly open: boolean;
  /** The call has ended for good; without `answer` what it was answered is not kept. */
  readonly final?: { readonly answer?: A };
}

type OrderVerdict<A> =
  | { readonly kind: "may-run" }
  | { readonly kind: "answered"; readonly answer: A }
  | { readonly kind: "stale"; readonly why: string };

interface Known<A> {
  readonly mark: Mark<A> | undefined;
  /** G5 */
  readonly floor: CommitOrder;
  /** G4 */
  readonly newestGen: number;
}

interface OrderGate<A> {
  /** To be asked in the turn in which the call leaves. */
  judge(subject: string, method: string, order: CallOrder): OrderVerdict<A>;
  /** A call that may run leaves, or joins the one that is open. */
  passed(subject: string, method: string, order: CallOrder): void;
  /** From now on no order runs that is not above this one; otherwise the words for why a higher one stays (G6). */
  raise(subject: string, order: CommitOrder): string | undefined;
  /** The call that passed last has ended; `final`: it does not run again. */
  ended(subject: string, final?: { readonly answer?: A }): void;
}

const isAbove = (a: CommitOrder, b: CommitOrder): boolean =>
  a.gen === b.gen ? a.sequence > b.sequence : a.gen > b.gen;

const wordsOf = ({ gen, sequence }: CommitOrder): string => `${sequence} of generation ${gen}`;

const mayRun = { kind: "may-run" } as const;

export function judgeOrder<A>({ mark, floor, newestGen }: Known<A>, method: string, order: CallOrder): OrderVerdict<A> {
  const stale = (why: string) => ({ kind: "stale", why: `the call has order ${wordsOf(order)}, and ${why}` }) as const;
  if (order.gen < newestGen) return stale(`generation ${newestGen} is known`); // G4
  if (mark === undefined) return isAbove(order, floor) ? mayRun : stale(`none up to ${wordsOf(floor)} is remembered`); // G5
  const { highest, final } = mark;
  if (isAbove(order, highest)) return mayRun; // G1
  if (isAbove(highest, order) || highest.opId !== order.opId || mark.method !== method)
    return stale(`order ${wordsOf(highest)} is known for the same subject`); // G3, G6
  if (final === undefined) return mayRun; // G2
  return final.answer === undefined ? stale("its answer is not kept") : { kind: "answered", answer: final.answer }; // G2
}

export interface OrderGateOptions {
  readonly maxSubjects?: number;
  /** G4: what was promised. */
  readonly lowestGen?: (() => number) | undefined;
}

export function createOrderGate<A>({ maxSubjects = 4_096, lowestGen = () => 0 }: OrderGateOptions = {}): OrderGate<A> {
  /** The one that passed longest ago first. */
  const marks = new Map<string, Mark<A>>();
  let floor: CommitOrder = { gen: 0, sequence: 0 };
  let newestGen = 0;

  /** G5 */
  const forgetOne = (): void => {
    for (const [subject, { open, highest }] of marks) {
      if (open) continue;
      marks.delete(subject);
      if (isAbove(highest, floor)) floor = highest;
      return;
    }
  };

  const put = (subject: string, mark: Mark<A>): void => {
    marks.delete(subject);
    marks.set(subject, mark);
    if (marks.size > maxSubjects) forgetOne();
  };

  return {
    judge(subject, method, order) {
      newestGen = Math.max(newestGen, order.gen, lowestGen());
      return judgeOrder({ mark: marks.get(subject), floor, newestGen }, method, order);
    },
    passed(subject, method, order) {
      put(subject, { highest: order, method, open: true });
    },
    raise(subject, order) {
      newestGen = Math.max(newestGen, order.gen, lowestGen());
      if (order.gen < newestGen) return `generation ${newestGen} is known`; // G4
      const { highest = floor, open = false } = marks.get(subject) ?? {};
      if (isAbove(highest, order)) return `order ${wordsOf(highest)} is known`; // G6
      put(subject, { highest: { ...order, opId: "" }, method: undefined, open });
      return undefined;
    },
    ended(subject, final) {
      const mark = marks.get(subject);
      if (mark !== undefined) marks.set(subject, { ...mark, open: false, ...(final === undefined ? {} : { final }) });
    },
  };
}
