/** What to do next for one claim of a volume. Two total tables; nothing else decides. */
import { accessRules } from "@holdfast/model/access";
import type { ClaimPhase, StagePhase, VolumeState } from "./types.ts";

/**
 * - `stage`, `publish`, `unpublish`, `unstage`: the CSI call of that name, after its intent was journalled.
 * - `verify`: the journal says published; look at the mount table.
 * - `release`: look that nothing is left, then journal RELEASED.
 * - `none`: cannot be; the goal never turns back.
 */
export type Step = "stage" | "publish" | "verify" | "unpublish" | "unstage" | "release" | "none";

export type StageStanding = StagePhase | "not-needed";

/** Towards a mount. Never Publish before a Stage that is certain, never Stage into an Unstage that is not. */
export const mountSteps: Record<ClaimPhase, Record<StageStanding, Step>> = {
  permitted: forward("publish"),
  publishing: forward("publish"),
  unsure: forward("publish"),
  published: {
    "not-needed": "verify",
    unstaged: "verify",
    staging: "verify",
    unsure: "verify",
    staged: "verify",
    unstaging: "verify",
  },
  unpublishing: nothing(),
  gone: nothing(),
};

/** Towards nothing. `last`: no other claim needs the stage. Unpublish comes first, always; the stage goes after the last. */
export const releaseSteps: Record<ClaimPhase, Record<"last" | "others", Record<StageStanding, Step>>> = {
  permitted: { last: backward(), others: whole("release") },
  publishing: { last: whole("unpublish"), others: whole("unpublish") },
  unsure: { last: whole("unpublish"), others: whole("unpublish") },
  published: { last: whole("unpublish"), others: whole("unpublish") },
  unpublishing: { last: whole("unpublish"), others: whole("unpublish") },
  gone: { last: backward(), others: whole("release") },
};

function forward(step: Step): Record<StageStanding, Step> {
  return {
    "not-needed": step,
    staged: step,
    unstaged: "stage",
    staging: "stage",
    unsure: "stage",
    unstaging: "unstage",
  };
}

function backward(): Record<StageStanding, Step> {
  return {
    "not-needed": "release",
    unstaged: "release",
    staging: "unstage",
    unsure: "unstage",
    staged: "unstage",
    unstaging: "unstage",
  };
}

function whole(step: Step): Record<StageStanding, Step> {
  return { "not-needed": step, unstaged: step, staging: step, unsure: step, staged: step, unstaging: step };
}

function nothing(): Record<StageStanding, Step> {
  return whole("none");
}

export const standingOf = (volume: VolumeState): StageStanding =>
  volume.stage.needed ? volume.stage.phase : "not-needed";

/** A claim that is on its way out and has nothing mounted any more needs no stage. */
const needsStage = (volume: VolumeState, claimUid: string): boolean => {
  const claim = volume.claims[claimUid];
  if (claim === undefined) return false;
  return claim.goal === "mounted" || (claim.phase !== "gone" && claim.phase !== "permitted");
};

export const isLast = (volume: VolumeState, claimUid: string): boolean =>
  Object.keys(volume.claims).every((uid) => uid === claimUid || !needsStage(volume, uid));

/**
 * Nothing of the volume is left behind this claim, and while it is held no other is let in beside it: the stage is on its way out with it, so
 * that both intents are written at once.
 */
export const leavesWithStage = (volume: VolumeState, claimUid: string): boolean => {
  const claim = volume.claims[claimUid];
  const staged = !["not-needed", "unstaged", "unstaging"].includes(standingOf(volume));
  const alone = claim !== undefined && !accessRules[claim.facts.accessMode].manyWorkloads;
  return staged && alone && claim.goal === "released" && isLast(volume, claimUid);
};

export const nextStep = (volume: VolumeState, claimUid: string): Step => {
  const claim = volume.claims[claimUid];
  if (claim === undefined) return "none";
  const standing = standingOf(volume);
  if (claim.goal === "mounted") return mountSteps[claim.phase][standing];
  return releaseSteps[claim.phase][isLast(volume, claimUid) ? "last" : "others"][standing];
};
