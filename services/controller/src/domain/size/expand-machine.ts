import { type OwedEvent, stillRow } from "../owed-events.ts";
import type { ExpansionState } from "./expansion.ts";

/** NONE = no expansion in the record. */
export type ExpandPlace = ExpansionState | "NONE";
export const expandPlaces: readonly ExpandPlace[] = ["NONE", "WANTED", "CALLING", "UNCERTAIN", "REFUSED"];

/**
 * A place to go to, or:
 * `merge`   the wish joins, widens, lowers or replaces what is wanted (`judgeWish`);
 * `ignore`  a late or repeated message that no longer means anything, or one that the guard of a command keeps out.
 */
export type ExpandCell = ExpandPlace | "merge" | "ignore";

type Row = Record<OwedEvent, ExpandCell>;

/** Total: a new state or event does not compile until every cell is placed. Answers have the table of obligations. */
export const expandMachine: Record<ExpandPlace, Row> = {
  NONE: { ...stillRow, wanted: "WANTED" },
  WANTED: { ...stillRow, wanted: "merge", not_possible: "REFUSED", started: "CALLING", dropped: "NONE" },
  CALLING: { ...stillRow, wanted: "merge" },
  UNCERTAIN: { ...stillRow, wanted: "merge", not_possible: "UNCERTAIN", started: "CALLING", dropped: "NONE" },
  REFUSED: { ...stillRow, wanted: "WANTED", dropped: "NONE" },
};
