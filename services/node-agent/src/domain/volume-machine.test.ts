import type { AccessMode } from "@holdfast/model/access";
import { describe, expect, test } from "vitest";
import { everyRow } from "../../../../test/support/every-row.ts";
import { claimEvents, claimTable } from "./claim-table.ts";
import type { VolumeEvent } from "./events.ts";
import { leavesWithStage, mountSteps, nextStep, releaseSteps, type StageStanding } from "./next-step.ts";
import { stageEvents, stageTable } from "./stage-table.ts";
import {
  type ClaimPhase,
  claimPhases,
  type HeldClaim,
  type StagePhase,
  stagePhases,
  type VolumeState,
} from "./types.ts";
import { applyEvent, isAtRest, isFault } from "./volume-machine.ts";

const ref = { namespace: "ns", volume: "v", volumeUid: "u", externalId: "x", plugin: "p" };
const epoch = (ctr: number) => ({ gen: 1, ctr });
const facts = (claimUid: string, ctr: number): HeldClaim["facts"] => ({
  claimUid,
  workload: `w-${claimUid}`,
  alias: "data",
  epoch: epoch(ctr),
  nodeEpoch: 1,
  accessMode: "MULTI_NODE_MULTI_WRITER",
  attachmentMode: "FILE_SYSTEM",
  readOnly: false,
  fsType: "",
  digest: "d",
  target: `/hf/publish/x/${claimUid}`,
});

const claimIn = (phase: ClaimPhase, claimUid = "a", ctr = 5, goal: HeldClaim["goal"] = "mounted"): HeldClaim => ({
  facts: facts(claimUid, ctr),
  phase,
  goal,
  mountId: 0,
});

const volumeWith = (stage: StagePhase, claims: readonly HeldClaim[], needed = true): VolumeState => ({
  ref,
  floor: epoch(1),
  dead: [],
  stage: { phase: stage, needed, path: "/hf/staging/x", shown: [], marks: [], before: [] },
  claims: Object.fromEntries(claims.map((claim) => [claim.facts.claimUid, claim])),
});

const stageEventOf = (name: (typeof stageEvents)[number]): VolumeEvent => {
  if (name === "staged") return { type: "staged", shown: [7], marks: [{ device: "9:1", root: "/x" }], before: [3] };
  if (name === "mount-lost") return { type: "mount-lost", claimUid: "a" };
  if (name === "recovered-seen") return { type: "recovered", stageSeen: true, sameBoot: true };
  if (name === "recovered-unseen") return { type: "recovered", stageSeen: false, sameBoot: true };
  return { type: name };
};

const claimEventOf = (name: (typeof claimEvents)[number]): VolumeEvent => {
  if (name === "published") return { type: "published", claimUid: "a", mountId: 9, marks: [], before: [] };
  if (name === "released") return { type: "released", claimUid: "a", epoch: epoch(5), late: false };
  if (name === "recovered") return { type: "recovered", stageSeen: true, sameBoot: true };
  return { type: name, claimUid: "a" };
};

/** What every cell of the two tables has to say; written out, so that a change of a table is a change of two places. */
const stageSays: Record<StagePhase, string> = {
  unstaged: "staging illegal illegal illegal unstaged illegal illegal illegal unstaged unstaged",
  staging: "staging staged unstaged unsure staging unstaging illegal illegal unsure unsure",
  unsure: "unsure staged unsure unsure unsure unstaging illegal illegal unsure unsure",
  staged: "unsure illegal illegal illegal unsure unstaging illegal illegal staged unsure",
  unstaging: "illegal illegal illegal illegal unstaging unstaging unstaging unstaged unstaging unstaging",
};
const claimSays: Record<ClaimPhase, string> = {
  permitted: "publishing illegal illegal illegal permitted permitted illegal illegal illegal removed permitted",
  publishing: "publishing published permitted unsure publishing publishing unpublishing illegal illegal illegal unsure",
  unsure: "unsure published unsure unsure unsure unsure unpublishing illegal illegal illegal unsure",
  published: "unsure illegal illegal illegal unsure published unpublishing illegal illegal illegal published",
  unpublishing:
    "illegal illegal illegal illegal unpublishing unpublishing unpublishing unpublishing gone illegal unpublishing",
  gone: "illegal illegal illegal illegal gone gone illegal illegal illegal removed gone",
};

describe("the stage: every phase × event", () => {
  const cells = stagePhases.flatMap((phase) =>
    stageEvents.map((event, at) => [phase, event, stageSays[phase].split(" ")[at] ?? ""] as const),
  );
  const nameOf = ([phase, event, says]: (typeof cells)[number]) => `${phase} × ${event} → ${says}`;
  const check = ([phase, event, says]: (typeof cells)[number]) => {
    expect(stageTable[phase][event]).toBe(says);
    const before = volumeWith(phase, [claimIn("permitted")]);
    const after = applyEvent(before, stageEventOf(event));
    if (says === "illegal") {
      expect(isFault(after) && after.fault).toBe(`${event} in a stage that is ${phase}`);
      return;
    }
    expect(isFault(after)).toBe(false);
    if (!isFault(after)) expect(after.stage.phase).toBe(says);
  };
  test("every cell leads where the table says", () => everyRow(cells, nameOf, check));
});

describe("a claim: every phase × event", () => {
  const cells = claimPhases.flatMap((phase) =>
    claimEvents.map((event, at) => [phase, event, claimSays[phase].split(" ")[at] ?? ""] as const),
  );
  const nameOf = ([phase, event, says]: (typeof cells)[number]) => `${phase} × ${event} → ${says}`;
  const check = ([phase, event, says]: (typeof cells)[number]) => {
    expect(claimTable[phase][event]).toBe(says);
    const after = applyEvent(volumeWith("staged", [claimIn(phase)]), claimEventOf(event));
    if (says === "illegal") {
      expect(isFault(after) && after.fault).toBe(`${event} in a claim that is ${phase}`);
      return;
    }
    if (isFault(after)) throw new Error(after.fault);
    if (says === "removed") {
      expect(after.claims).toEqual({});
      expect(after.dead).toEqual([{ claimUid: "a", epoch: epoch(5), late: false }]);
    } else expect(after.claims["a"]?.phase).toBe(says);
    if (event === "release-intent") expect(after.claims["a"]?.goal).toBe("released");
  };
  test("every cell leads where the table says", () => everyRow(cells, nameOf, check));

  test.each(claimEvents.filter((event) => event !== "recovered"))(
    "%s of a claim that is not held is a fault",
    (event) => {
      expect(isFault(applyEvent(volumeWith("staged", []), claimEventOf(event)))).toBe(true);
      expect(isFault(applyEvent(undefined, claimEventOf(event)))).toBe(true);
    },
  );
});

const standings: readonly StageStanding[] = ["not-needed", ...stagePhases];

/** Columns as `standings`. Read as sentences: a claim that is … on a stage that is … takes the step …. */
const forward = (last: string) => `${last} stage stage stage ${last} unstage`;
const mountSays: Record<ClaimPhase, string> = {
  permitted: forward("publish"),
  publishing: forward("publish"),
  unsure: forward("publish"),
  published: "verify verify verify verify verify verify",
  unpublishing: "none none none none none none",
  gone: "none none none none none none",
};
const unpublishAll = "unpublish unpublish unpublish unpublish unpublish unpublish";
const releaseAll = "release release release release release release";
const unstageFirst = "release release unstage unstage unstage unstage";
const releaseSays: Record<ClaimPhase, { last: string; others: string }> = {
  permitted: { last: unstageFirst, others: releaseAll },
  publishing: { last: unpublishAll, others: unpublishAll },
  unsure: { last: unpublishAll, others: unpublishAll },
  published: { last: unpublishAll, others: unpublishAll },
  unpublishing: { last: unpublishAll, others: unpublishAll },
  gone: { last: unstageFirst, others: releaseAll },
};

describe("the next step: every claim phase × stage", () => {
  const cells = claimPhases.flatMap((phase) => standings.map((standing, at) => [phase, standing, at] as const));

  const volumeAt = (standing: StageStanding, claims: readonly HeldClaim[]) =>
    standing === "not-needed" ? volumeWith("unstaged", claims, false) : volumeWith(standing, claims);

  type Cell = (typeof cells)[number];
  const nameOf = ([phase, standing]: Cell) => `${phase}, stage ${standing}`;

  test("the stage goes with the last claim of a volume for one workload, and with no other", () => {
    const mode = (uid: string, accessMode: AccessMode, goal: HeldClaim["goal"] = "released"): HeldClaim => {
      const claim = claimIn("published", uid, 5, goal);
      return { ...claim, facts: { ...claim.facts, accessMode } };
    };
    const one = mode("a", "SINGLE_NODE_WRITER");
    const leaves = (standing: StageStanding, ...claims: HeldClaim[]) =>
      leavesWithStage(volumeAt(standing, claims), "a");
    expect(standings.filter((standing) => leaves(standing, one))).toEqual(["staging", "unsure", "staged"]);
    expect(leaves("staged", mode("a", "SINGLE_NODE_MULTI_WRITER"))).toBe(false);
    expect(leaves("staged", mode("a", "SINGLE_NODE_WRITER", "mounted"))).toBe(false);
    expect(leaves("staged", one, mode("b", "SINGLE_NODE_WRITER"))).toBe(false);
    expect(leaves("staged")).toBe(false);
  });

  const towardsMount = ([phase, standing, at]: Cell) => {
    const says = mountSays[phase].split(" ")[at];
    expect(mountSteps[phase][standing]).toBe(says);
    expect(nextStep(volumeAt(standing, [claimIn(phase)]), "a")).toBe(says);
  };
  test("towards a mount", () => everyRow(cells, nameOf, towardsMount));

  const towardsNothing = ([phase, standing, at]: Cell) => {
    const claim = claimIn(phase, "a", 5, "released");
    expect(releaseSteps[phase].last[standing]).toBe(releaseSays[phase].last.split(" ")[at]);
    expect(nextStep(volumeAt(standing, [claim]), "a")).toBe(releaseSays[phase].last.split(" ")[at]);
    expect(releaseSteps[phase].others[standing]).toBe(releaseSays[phase].others.split(" ")[at]);
    const other = claimIn("published", "b", 6);
    expect(nextStep(volumeAt(standing, [claim, other]), "a")).toBe(releaseSays[phase].others.split(" ")[at]);
    // One that is leaving and has nothing mounted any more needs no stage.
    const leaving = claimIn("gone", "b", 6, "released");
    expect(nextStep(volumeAt(standing, [claim, leaving]), "a")).toBe(releaseSays[phase].last.split(" ")[at]);
  };
  test("towards nothing, as the last and as one of several", () => everyRow(cells, nameOf, towardsNothing));

  test("a claim that is not held has no step", () => expect(nextStep(volumeWith("staged", []), "a")).toBe("none"));
});

describe("what a permit and a release leave", () => {
  const permit = (claimUid: string, ctr: number, floor: number): VolumeEvent => ({
    type: "permit",
    ref,
    facts: facts(claimUid, ctr),
    floor: epoch(floor),
    stageNeeded: true,
    stagePath: "/hf/staging/x",
    found: { stage: false, target: false },
  });
  const applied = (volume: VolumeState | undefined, ...events: VolumeEvent[]): VolumeState => {
    let state = volume;
    for (const event of events) {
      const after = applyEvent(state, event);
      if (isFault(after)) throw new Error(after.fault);
      state = after;
    }
    if (state === undefined) throw new Error("no events");
    return state;
  };

  test("the floor rises and never falls; what it passed is no longer remembered as dead", () => {
    const state = applied(
      undefined,
      permit("a", 5, 4),
      { type: "released", claimUid: "a", epoch: epoch(5), late: false },
      permit("b", 7, 6),
    );
    expect(state.floor).toEqual(epoch(6));
    expect(state.dead).toEqual([]);
    expect(
      applied(state, { type: "released", claimUid: "b", epoch: epoch(7), late: false }, permit("c", 8, 2)).floor,
    ).toEqual(epoch(6));
  });

  test("a dead epoch above the floor stays, one that nobody has heard of stays below it too", () => {
    const dead = { type: "dead", ref, claimUid: "x", epoch: epoch(9), late: true } as const;
    const state = applied(undefined, dead, permit("a", 20, 19));
    expect(state.dead).toEqual([{ claimUid: "x", epoch: epoch(9), late: true }]);
    expect(applied(state, { type: "forgotten", claimUid: "x" }, permit("b", 21, 19)).dead).toEqual([]);
  });

  test("released under a newer epoch than the one held: both are dead", () => {
    const state = applied(undefined, permit("a", 5, 4), {
      type: "released",
      claimUid: "a",
      epoch: epoch(8),
      late: false,
    });
    expect(state.dead.map(({ epoch: { ctr } }) => ctr)).toEqual([5, 8]);
  });

  test("a claim that is held cannot be permitted again", () => {
    expect(isFault(applyEvent(applied(undefined, permit("a", 5, 4)), permit("a", 6, 4)))).toBe(true);
  });

  test("mounts that a lost journal left are in doubt from the first, whatever the plugin refuses", () => {
    const found = applied(undefined, { ...permit("a", 5, 4), found: { stage: true, target: true } } as VolumeEvent);
    expect(found.stage.phase).toBe("unsure");
    expect(found.claims["a"]?.phase).toBe("unsure");
  });

  test("how to unstage is decided by the first claim and kept until the volume is free", () => {
    const first = applied(undefined, permit("a", 5, 4));
    const second = applied(first, { ...permit("b", 6, 4), stageNeeded: false } as VolumeEvent);
    expect(second.stage.needed).toBe(true);
    const later = applied(first, { type: "released", claimUid: "a", epoch: epoch(5), late: false }, {
      ...permit("b", 6, 4),
      stageNeeded: false,
    } as VolumeEvent);
    expect(later.stage.needed).toBe(false);
  });

  test("marks are kept until the last claim is released, also after Unstage", () => {
    const marks = [{ device: "9:1", root: "/x" }];
    const state = applied(
      undefined,
      permit("a", 5, 4),
      { type: "stage-intent" },
      { type: "staged", shown: [7], marks, before: [3] },
      { type: "release-intent", claimUid: "a" },
      { type: "unstage-intent" },
      { type: "unstaged" },
    );
    expect(state.stage).toMatchObject({ marks, before: [3], shown: [] });
    const end = applied(state, { type: "released", claimUid: "a", epoch: epoch(5), late: false });
    expect(end.stage).toMatchObject({ marks: [], before: [] });
    expect(isAtRest(end)).toBe(true);
  });

  test("after a reboot what the kernel had shown means nothing", () => {
    const state = applied(
      undefined,
      permit("a", 5, 4),
      { type: "stage-intent" },
      { type: "staged", shown: [7], marks: [{ device: "9:1", root: "/x" }], before: [3] },
    );
    const after = applied(state, { type: "recovered", stageSeen: false, sameBoot: false });
    expect(after.stage).toMatchObject({ phase: "unsure", shown: [], marks: [], before: [] });
  });
});
