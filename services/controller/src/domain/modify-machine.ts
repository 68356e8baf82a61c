import type { ModificationState } from "./modification.ts";

export const modifyEvents = [
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
export type ModifyEvent = (typeof modifyEvents)[number];

export type ModifyPlace = ModificationState | "NONE";
export const modifyPlaces: readonly ModifyPlace[] = ["NONE", "WANTED", "CALLING", "UNCERTAIN", "REFUSED"];

/** As of an expansion; `retarget`: the wish takes the target's place, which `judgeModify` has allowed. */
export type ModifyCell = ModifyPlace | "retarget" | "ignore";

type Row = Record<ModifyEvent, ModifyCell>;

const still: Row = {
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

/** Total: a new state or event does not compile until every cell is placed. */
export const modifyMachine: Record<ModifyPlace, Row> = {
  NONE: { ...still, wanted: "WANTED" },
  WANTED: { ...still, wanted: "retarget", not_possible: "REFUSED", started: "CALLING", dropped: "NONE" },
  // Frozen: while a call is out nobody can say which of two targets is set in the end.
  CALLING: {
    ...still,
    done: "NONE",
    refused: "REFUSED",
    held_off: "WANTED",
    refused_in_doubt: "UNCERTAIN",
    unknown: "UNCERTAIN",
  },
  UNCERTAIN: {
    ...still,
    wanted: "retarget",
    not_possible: "UNCERTAIN",
    started: "CALLING",
    done: "NONE",
    refused_in_doubt: "UNCERTAIN",
    unknown: "UNCERTAIN",
    dropped: "NONE",
  },
  REFUSED: { ...still, wanted: "WANTED", dropped: "NONE" },
};
