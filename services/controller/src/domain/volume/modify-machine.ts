import { type OwedEvent, stillRow } from "../owed-events.ts";
import type { ModificationState } from "./modification.ts";

export type ModifyPlace = ModificationState | "NONE";
export const modifyPlaces: readonly ModifyPlace[] = ["NONE", "WANTED", "CALLING", "UNCERTAIN", "REFUSED"];

/** As of an expansion; `retarget`: the wish takes the target's place, which `judgeModify` has allowed. */
export type ModifyCell = ModifyPlace | "retarget" | "ignore";

type Row = Record<OwedEvent, ModifyCell>;

/** Total: a new state or event does not compile until every cell is placed. */
export const modifyMachine: Record<ModifyPlace, Row> = {
  NONE: { ...stillRow, wanted: "WANTED" },
  WANTED: { ...stillRow, wanted: "retarget", not_possible: "REFUSED", started: "CALLING", dropped: "NONE" },
  // Frozen: while a call is out nobody can say which of two targets is set in the end.
  CALLING: stillRow,
  UNCERTAIN: { ...stillRow, wanted: "retarget", not_possible: "UNCERTAIN", started: "CALLING", dropped: "NONE" },
  REFUSED: { ...stillRow, wanted: "WANTED", dropped: "NONE" },
};
