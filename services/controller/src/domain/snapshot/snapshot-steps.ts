import { type LiftStep, liftSteps } from "../bar.ts";
import { triesAt } from "../retry.ts";
import type { CutRecord } from "./snapshot.ts";
import { isDeleted, isDeletedForNow, mayBeCutLate } from "./snapshot-bar.ts";

/** One thing that is owed for a snapshot or a group, and when. Two steps of one lane never run at once. */
export type CutStep = (LiftStep | { readonly do: "create" | "delete"; readonly lane: "controller" }) & {
  readonly at: number;
};

const callOf = (record: CutRecord): "create" | "delete" | undefined => {
  switch (record.state) {
    case "CREATING":
    case "CUT":
      return "create";
    case "DELETING":
      return mayBeCutLate(record) || isDeleted(record) ? undefined : "delete";
    case "READY":
    case "FAILED":
      return undefined;
  }
};

/**
 * Pure: whoever asks with the same record gets the same answer. In a hurry the pause after a failed attempt is over; not the wait before
 * an answered delete is made once more, which no news of the plugin shortens.
 */
export const planCut = (record: CutRecord, now: number, hurry = false): readonly CutStep[] => {
  // A member of a group goes with its group: nothing is ever done for it alone.
  if (record.kind === "snapshot" && record.group !== "") return [];
  const failing = record.attempts.lastError !== undefined && !isDeletedForNow(record);
  const at = hurry && failing ? 0 : triesAt(record.attempts, now);
  const call = callOf(record);
  return [
    ...(call === undefined ? [] : [{ do: call, lane: "controller" as const, at }]),
    ...liftSteps(record, now, hurry).map(({ step, at: tries }) => ({ ...step, at: tries })),
  ];
};
