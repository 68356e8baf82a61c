import type { StagePhase } from "./types.ts";

export const stageEvents = [
  "stage-intent",
  "staged",
  "stage-refused",
  "stage-unknown",
  "mount-lost",
  "unstage-intent",
  "unstage-unknown",
  "unstaged",
  "recovered-seen",
  "recovered-unseen",
] as const;
export type StageEvent = (typeof stageEvents)[number];

/** No such thing can happen there: a journal that says so is damaged, a program that does so is wrong. */
export type Illegal = "illegal";

/** Total: a new phase or event does not compile until it is placed in every row and column. */
export const stageTable: Record<StagePhase, Record<StageEvent, StagePhase | Illegal>> = {
  unstaged: {
    "stage-intent": "staging",
    staged: "illegal",
    "stage-refused": "illegal",
    "stage-unknown": "illegal",
    "mount-lost": "unstaged",
    "unstage-intent": "illegal",
    "unstage-unknown": "illegal",
    unstaged: "illegal",
    "recovered-seen": "unstaged",
    "recovered-unseen": "unstaged",
  },
  staging: {
    "stage-intent": "staging",
    staged: "staged",
    // Certain: no earlier call of this operation is in doubt, so nothing is owed.
    "stage-refused": "unstaged",
    "stage-unknown": "unsure",
    "mount-lost": "staging",
    "unstage-intent": "unstaging",
    "unstage-unknown": "illegal",
    unstaged: "illegal",
    "recovered-seen": "unsure",
    "recovered-unseen": "unsure",
  },
  unsure: {
    "stage-intent": "unsure",
    staged: "staged",
    // This call did nothing; an earlier one may have: the undo stays owed.
    "stage-refused": "unsure",
    "stage-unknown": "unsure",
    "mount-lost": "unsure",
    "unstage-intent": "unstaging",
    "unstage-unknown": "illegal",
    unstaged: "illegal",
    "recovered-seen": "unsure",
    "recovered-unseen": "unsure",
  },
  staged: {
    // Only a journal shows this: the agent had come back, or lost the mount, before it staged again.
    "stage-intent": "unsure",
    staged: "illegal",
    "stage-refused": "illegal",
    "stage-unknown": "illegal",
    "mount-lost": "unsure",
    "unstage-intent": "unstaging",
    "unstage-unknown": "illegal",
    unstaged: "illegal",
    "recovered-seen": "staged",
    // No Publish before a Stage OK of this life.
    "recovered-unseen": "unsure",
  },
  unstaging: {
    // The inverse may still be running in the plugin: it has to end before anything is staged again.
    "stage-intent": "illegal",
    staged: "illegal",
    "stage-refused": "illegal",
    "stage-unknown": "illegal",
    "mount-lost": "unstaging",
    "unstage-intent": "unstaging",
    "unstage-unknown": "unstaging",
    unstaged: "unstaged",
    "recovered-seen": "unstaging",
    "recovered-unseen": "unstaging",
  },
};
