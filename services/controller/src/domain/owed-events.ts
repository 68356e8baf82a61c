/**
 * What can happen to something that a volume is to become, by one call that is owed to its backend: an expansion, a modification.
 * `wanted` comes from a caller, `dropped` from a deletion, the others from facts. Answers have the table of obligations.
 */
export const owedEvents = ["wanted", "not_possible", "started", "dropped"] as const;
export type OwedEvent = (typeof owedEvents)[number];

/** The row of a state in which nothing means anything any more; each state says what differs. */
export const stillRow: Readonly<Record<OwedEvent, "ignore">> = {
  wanted: "ignore",
  not_possible: "ignore",
  started: "ignore",
  dropped: "ignore",
};
