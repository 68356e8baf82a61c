/**
 * What a record has to outlive before the agent goes on. A record that the kernel has outlives the agent's process; one that is
 * on disk outlives a loss of power too.
 *
 * After a loss of power the boot is another one: nothing is mounted, and whatever the journal holds of a volume is in doubt
 * already. Only what makes the agent owe something, or what it may no longer follow, has to be known then. What says that less is owed, or
 * that something owed is being undone, may be lost with the power: the undo is then made once more. So may the intent to publish from a
 * stage: that stage is owed on disk, and where the power went the publication is taken to be owed with it (`lostIntents`).
 */
import type { VolumeRecord } from "./events.ts";
import type { VolumeState } from "./types.ts";

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

/** Of records that are written together; `after` is what they lead to. */
export const survivalOf = (records: readonly VolumeRecord[], after: Pick<VolumeState, "stage">): Survival => {
  const fromStage = after.stage.phase === "staged";
  return records.some(({ type }) => survival[type] === "host" && !(fromStage && type === "publish-intent"))
    ? "host"
    : "process";
};

/** What the journal may lack of a volume after a loss of power: whoever was to be published from a stage may have been. */
export const lostIntents = ({ stage, claims }: Pick<VolumeState, "stage" | "claims">): readonly VolumeRecord[] =>
  stage.phase === "unstaged" || stage.phase === "unstaging"
    ? []
    : Object.values(claims)
        .filter(({ phase, goal }) => phase === "permitted" && goal === "mounted")
        .map(({ facts }) => ({ type: "publish-intent", claimUid: facts.claimUid }));
