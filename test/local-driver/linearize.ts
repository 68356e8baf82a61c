/**
 * Is there an order of these overlapping calls in which every answer was right? Each call may take its place at any moment between its
 * start and its end (Wing and Gong's search, with a memory of what was tried).
 */

export interface Timed {
  readonly start: number;
  readonly end: number;
}

export interface Linearized<E, S> {
  /** The states in which an order may have ended; none: no order is right. */
  readonly finals: readonly S[];
  /** As far as any order got: for the reader of a failure. */
  readonly longest: readonly E[];
}

export const linearize = <E extends Timed, S>(
  history: readonly E[],
  initial: S,
  step: (state: S, entry: E) => S | undefined,
  keyOf: (state: S) => string,
): Linearized<E, S> => {
  const entries = history.toSorted((a, b) => a.start - b.start);
  const finals = new Map<string, S>();
  let longest: readonly E[] = [];
  let level = new Map<string, { readonly state: S; readonly left: readonly E[]; readonly order: readonly E[] }>();
  level.set("", { state: initial, left: entries, order: [] });
  // Every round puts one more call into place, so that equal situations meet in one round.
  for (let round = 0; round <= entries.length; round += 1) {
    const next: typeof level = new Map();
    for (const { state, left, order } of level.values()) {
      if (order.length > longest.length) longest = order;
      if (left.length === 0) finals.set(keyOf(state), state);
      const firstEnd = Math.min(...left.map(({ end }) => end));
      for (const entry of left) {
        // Something had ended before it began: that comes first. They are in the order of their starts.
        if (entry.start > firstEnd) break;
        const after = step(state, entry);
        if (after === undefined) continue;
        const rest = left.filter((each) => each !== entry);
        const key = `${keyOf(after)} ${rest.map((each) => entries.indexOf(each)).join()}`;
        if (!next.has(key)) next.set(key, { state: after, left: rest, order: [...order, entry] });
      }
    }
    level = next;
  }
  return { finals: [...finals.values()], longest };
};
