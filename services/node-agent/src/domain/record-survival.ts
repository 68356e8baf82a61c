/**
 * What a record has to outlive before the agent goes on. A record that the kernel has outlives the agent's process; one that is
 * on disk outlives a loss of power too.
 *
 * After a loss of power the boot is another one: nothing is mounted, and whatever the journal holds of a volume is in doubt
 * already. Only what makes the agent owe something, or what it may no longer follow, has to be known then. What says that less is owed, or
 * that something owed is being undone, may be lost with the power: the undo is then made once more.
 */
import type { VolumeRecord } from "./events.ts";

export type Survival = "process" | "host";

const survival: Record<VolumeRecord["type"], Survival> = {
  permit: "host",
  adopted: "host",
  "stage-intent": "host",
  "publish-intent": "host",
  released: "host",
  dead: "host",
  forgotten: "host",
  staged: "process",
  "stage-refused": "process",
  published: "process",
  "publish-refused": "process",
  "release-intent": "process",
  "unpublish-intent": "process",
  unpublished: "process",
  "unstage-intent": "process",
  unstaged: "process",
};

/** Of records that are written together. */
export const survivalOf = (records: readonly VolumeRecord[]): Survival =>
  records.some(({ type }) => survival[type] === "host") ? "host" : "process";
