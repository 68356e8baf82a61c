/**
 * What can happen to something that a volume is to become, by one call that is owed to its backend: an expansion, a modification.
 * `wanted` comes from a caller, `dropped` from a deletion, all others from facts and answers.
 */
export const owedEvents = [
  "wanted",
  "not_possible",
  "started",
  "done",
  "refused",
  "held_off",
  "refused_in_doubt",
  "unknown",
  "dropped",
] as const;
export type OwedEvent = (typeof owedEvents)[number];

/** The row of a state in which nothing means anything any more; each state says what differs. */
export const stillRow: Readonly<Record<OwedEvent, "ignore">> = {
  wanted: "ignore",
  not_possible: "ignore",
  started: "ignore",
  done: "ignore",
  refused: "ignore",
  held_off: "ignore",
  refused_in_doubt: "ignore",
  unknown: "ignore",
  dropped: "ignore",
};
