import { triesAt } from "../retry.ts";
import type { CutRecord } from "./snapshot.ts";

/** The one thing that is owed for a snapshot or a group, and when. */
export interface CutStep {
  readonly do: "create" | "delete";
  readonly at: number;
}

/** Pure: whoever asks with the same record gets the same answer. In a hurry the pause after a failed attempt is over. */
export const planCut = (record: CutRecord, now: number, hurry = false): CutStep | undefined => {
  // A member of a group goes with its group: nothing is ever done for it alone.
  if (record.kind === "snapshot" && record.group !== "") return undefined;
  const failing = record.attempts.lastError !== undefined;
  const at = hurry && failing ? 0 : triesAt(record.attempts, now);
  switch (record.state) {
    case "CREATING":
    case "CUT":
      return { do: "create", at };
    case "DELETING":
      return { do: "delete", at };
    case "READY":
    case "FAILED":
      return undefined;
  }
};
