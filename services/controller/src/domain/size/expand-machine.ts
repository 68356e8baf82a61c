import { type OwedEvent, stillRow } from "../owed-events.ts";
import type { ExpansionState } from "./expansion.ts";

/** NONE = no expansion in the record. */
export type ExpandPlace = ExpansionState | "NONE";
export const expandPlaces: readonly ExpandPlace[] = ["NONE", "WANTED", "CALLING", "UNCERTAIN", "REFUSED"];

/**
 * A place to go to, or:
 * `merge`   the wish joins, widens, lowers or replaces what is wanted (`judgeWish`);
 * `settle`  the wish that came meanwhile goes to WANTED; without one there is no expansion any more;
 * `refuse`  the same with a wish for less that came meanwhile, else REFUSED;
 * `ignore`  a late or repeated message that no longer means anything, or one that the guard of a command keeps out.
 */
export type ExpandCell = ExpandPlace | "merge" | "settle" | "refuse" | "ignore";

type Row = Record<OwedEvent, ExpandCell>;

/**
 * `refused`: certain, and for good. `held_off`: certain for this call, and worth another one once something has changed (the volume is
 * used, or not known to the backend). Total: a new state or event does not compile until every cell is placed.
 */
export const expandMachine: Record<ExpandPlace, Row> = {
  NONE: { ...stillRow, wanted: "WANTED" },
  WANTED: { ...stillRow, wanted: "merge", not_possible: "REFUSED", started: "CALLING", dropped: "NONE" },
  CALLING: {
    ...stillRow,
    wanted: "merge",
    done: "settle",
    refused: "refuse",
    held_off: "WANTED",
    refused_in_doubt: "UNCERTAIN",
    unknown: "UNCERTAIN",
  },
  // Only an answer that tells what the backend has leads out of here: what may have happened stays owed. `refused` and
  // `held_off` are such here: they come only when the backend itself has said that it is as small as before.
  UNCERTAIN: {
    ...stillRow,
    wanted: "merge",
    not_possible: "UNCERTAIN",
    started: "CALLING",
    done: "settle",
    refused: "refuse",
    held_off: "WANTED",
    refused_in_doubt: "UNCERTAIN",
    unknown: "UNCERTAIN",
    dropped: "NONE",
  },
  REFUSED: { ...stillRow, wanted: "WANTED", dropped: "NONE" },
};
