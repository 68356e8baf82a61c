/**
 * One volume on this host, as protocol §2.4: what each event makes of it. Pure; the journal is its input, and its records
 * alone rebuild it. The tables are total, so that every (phase × event) has been thought about once.
 *
 * V1 A claim in `claims` is one that the journal holds: whatever is mounted for it may be mounted (I3, I5).
 * V2 A claim leaves only by `released`, from a phase in which nothing of it can be mounted.
 * V3 A released epoch is dead until the floor has passed it.
 * V4 `marks` grow as long as anything is held, and are forgotten only with the last claim.
 */
import { compareEpochs, type Epoch, newerEpoch, sameEpoch, zeroEpoch } from "@holdfast/model/epoch";
import { type ClaimEvent, claimTable } from "./claim-table.ts";
import type { VolumeEvent } from "./events.ts";
import { type StageEvent, stageTable } from "./stage-table.ts";
import type { DeadEpoch, HeldClaim, MountMark, StageState, VolumeRef, VolumeState } from "./types.ts";

/** An event that the tables do not allow: a journal that holds it is damaged. */
export interface MachineFault {
  readonly fault: string;
}

export type Applied = VolumeState | MachineFault;

export const isFault = (applied: Applied): applied is MachineFault => "fault" in applied;

export const applyEvent = (volume: VolumeState | undefined, event: VolumeEvent): Applied => {
  if (event.type === "permit" || event.type === "adopted") return takeClaim(volume, event);
  if (event.type === "dead") {
    const known = volume ?? emptyVolume(event.ref, false, "");
    return { ...known, dead: withDead(known, { claimUid: event.claimUid, epoch: event.epoch, late: event.late }) };
  }
  if (volume === undefined) return fault(event.type, "a volume that no permit named");
  switch (event.type) {
    case "stage-intent":
    case "stage-refused":
    case "stage-unknown":
    case "unstage-intent":
    case "unstage-unknown":
      return stageMoved(volume, event.type);
    case "staged":
      return stageMoved(volume, "staged", {
        shown: event.shown,
        marks: joinMarks(volume.stage.marks, event.marks),
        before: joinIds(volume.stage.before, event.before),
      });
    case "unstaged":
      return stageMoved(volume, "unstaged", { shown: [] });
    case "published":
      return claimMoved(
        volume,
        event.claimUid,
        "published",
        { mountId: event.mountId },
        { ...withSight(volume, event).stage, ...(event.shown === undefined ? {} : { shown: event.shown }) },
      );
    case "publish-intent":
    case "publish-refused":
    case "publish-unknown":
    case "unpublish-intent":
    case "unpublish-unknown":
    case "unpublished":
      return claimMoved(volume, event.claimUid, event.type, {});
    case "mount-lost": {
      const lost = stageMoved(volume, "mount-lost");
      return isFault(lost) ? lost : claimMoved(lost, event.claimUid, "mount-lost", { mountId: 0 });
    }
    case "release-intent":
      return claimMoved(volume, event.claimUid, "release-intent", {
        goal: "released",
        ...(event.failure === undefined ? {} : { failure: event.failure }),
      });
    case "released":
      return claimReleased(volume, event.claimUid, event.epoch, event.late);
    case "forgotten": {
      const told = volume.dead.map((it) => (it.claimUid === event.claimUid ? { ...it, late: false } : it));
      return { ...volume, dead: aboveFloor(told, volume.floor) };
    }
    case "recovered":
      return recovered(volume, event.stageSeen, event.sameBoot);
  }
};

const fault = (event: string, where: string): MachineFault => ({ fault: `${event} in ${where}` });

const emptyVolume = (ref: VolumeRef, stageNeeded: boolean, stagePath: string): VolumeState => ({
  ref,
  floor: zeroEpoch,
  dead: [],
  stage: { phase: "unstaged", needed: stageNeeded, path: stagePath, shown: [], marks: [], before: [] },
  claims: {},
});

const takeClaim = (
  volume: VolumeState | undefined,
  event: Extract<VolumeEvent, { type: "permit" | "adopted" }>,
): Applied => {
  const known = volume ?? emptyVolume(event.ref, event.stageNeeded, event.stagePath);
  if (known.claims[event.facts.claimUid] !== undefined)
    return fault(event.type, "a volume that holds the claim already");
  // How to undo was decided by whoever came first and lasts until nothing of it is left.
  const fresh = Object.keys(known.claims).length === 0 && known.stage.phase === "unstaged";
  const kept: StageState = fresh ? { ...known.stage, needed: event.stageNeeded, path: event.stagePath } : known.stage;
  const inDoubt = kept.phase === "unstaged" && kept.needed && (event.type === "adopted" || event.found.stage);
  const stage: StageState = inDoubt ? { ...kept, phase: "unsure" } : kept;
  if (event.type === "adopted") {
    const claim: HeldClaim = { facts: event.facts, phase: "unsure", goal: "released", mountId: 0 };
    const marks = joinMarks(stage.marks, event.marks);
    const before = joinIds(stage.before, event.before);
    return { ...known, ref: event.ref, stage: { ...stage, marks, before }, claims: withClaim(known, claim) };
  }
  const phase = event.found.target ? "unsure" : "permitted";
  const claim: HeldClaim = { facts: event.facts, phase, goal: "mounted", mountId: 0 };
  const floor = newerEpoch(known.floor, event.floor);
  return {
    ...known,
    ref: event.ref,
    floor,
    dead: aboveFloor(known.dead, floor),
    stage,
    claims: withClaim(known, claim),
  };
};

const stageMoved = (volume: VolumeState, event: StageEvent, change: Partial<StageState> = {}): Applied => {
  const { phase } = volume.stage;
  const to = stageTable[phase][event];
  return to === "illegal"
    ? fault(event, `a stage that is ${phase}`)
    : { ...volume, stage: { ...volume.stage, ...change, phase: to } };
};

const claimMoved = (
  volume: VolumeState,
  claimUid: string,
  event: ClaimEvent,
  change: Partial<HeldClaim>,
  stage: Partial<StageState> = {},
): Applied => {
  const claim = volume.claims[claimUid];
  if (claim === undefined) return fault(event, "a claim that is not held");
  const to = claimTable[claim.phase][event];
  if (to === "illegal" || to === "removed") return fault(event, `a claim that is ${claim.phase}`);
  return {
    ...volume,
    stage: { ...volume.stage, ...stage },
    claims: withClaim(volume, { ...claim, ...change, phase: to }),
  };
};

const claimReleased = (volume: VolumeState, claimUid: string, epoch: Epoch, late: boolean): Applied => {
  const claim = volume.claims[claimUid];
  if (claim === undefined) return fault("released", "a claim that is not held");
  if (claimTable[claim.phase].released !== "removed") return fault("released", `a claim that is ${claim.phase}`); // V2
  const { [claimUid]: gone, ...claims } = volume.claims;
  const failure = claim.failure === undefined ? {} : { failure: claim.failure };
  let dead = withDead(volume, { claimUid, epoch: claim.facts.epoch, late, ...failure });
  if (!sameEpoch(epoch, claim.facts.epoch)) dead = withDead({ ...volume, dead }, { claimUid, epoch, late, ...failure });
  const over = Object.keys(claims).length === 0 && volume.stage.phase === "unstaged";
  const stage = over ? { ...volume.stage, shown: [], marks: [], before: [] } : volume.stage; // V4
  return { ...volume, claims, dead, stage };
};

const recovered = (volume: VolumeState, stageSeen: boolean, sameBoot: boolean): Applied => {
  const phase = stageTable[volume.stage.phase][stageSeen ? "recovered-seen" : "recovered-unseen"];
  if (phase === "illegal") return fault("recovered", `a stage that is ${volume.stage.phase}`);
  const claims: Record<string, HeldClaim> = {};
  for (const [uid, claim] of Object.entries(volume.claims)) {
    const to = claimTable[claim.phase].recovered;
    if (to === "illegal" || to === "removed") return fault("recovered", `a claim that is ${claim.phase}`);
    claims[uid] = { ...claim, phase: to, mountId: sameBoot ? claim.mountId : 0 };
  }
  // Mount ids and device numbers mean nothing after a reboot.
  const seen = sameBoot ? {} : { shown: [], marks: [], before: [] };
  return { ...volume, stage: { ...volume.stage, ...seen, phase }, claims };
};

const withClaim = (volume: VolumeState, claim: HeldClaim) => ({ ...volume.claims, [claim.facts.claimUid]: claim });

/** V3 */
const withDead = (volume: VolumeState, entry: DeadEpoch): readonly DeadEpoch[] => {
  const others = volume.dead.filter((it) => it.claimUid !== entry.claimUid || !sameEpoch(it.epoch, entry.epoch));
  return aboveFloor([...others, entry], volume.floor);
};

/** Below the floor the floor itself refuses; only who has yet to be told is kept. */
const aboveFloor = (dead: readonly DeadEpoch[], floor: Epoch) =>
  dead.filter((it) => it.late || compareEpochs(it.epoch, floor) > 0);

/** What is to be looked for before a release, learned after the stage was known to be done. */
export const withSight = (volume: VolumeState, seen: Pick<StageState, "marks" | "before">): VolumeState => ({
  ...volume,
  stage: {
    ...volume.stage,
    marks: joinMarks(volume.stage.marks, seen.marks),
    before: joinIds(volume.stage.before, seen.before),
  },
});

const joinIds = (a: readonly number[], b: readonly number[]) => [...new Set([...a, ...b])];

const joinMarks = (a: readonly MountMark[], b: readonly MountMark[]): readonly MountMark[] => {
  const fresh = b.filter((mark) => !a.some((it) => it.device === mark.device && it.root === mark.root));
  return fresh.length === 0 ? a : [...a, ...fresh];
};

/** Nothing held, nothing staged, nothing owed: only floor and dead epochs are left. */
export const isAtRest = (volume: VolumeState): boolean =>
  Object.keys(volume.claims).length === 0 && volume.stage.phase === "unstaged";
