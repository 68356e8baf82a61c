import { describe, expect, it } from "vitest";
import { overtaken } from "../bar.ts";
import { barBlock } from "../bar-block.ts";
import type { Outcome } from "../outcome.ts";
import { cutBarRecord, cutRecord, failureWith, momentAt } from "../testing/record-fixtures.ts";
import { type CutBar, membersOf } from "./snapshot.ts";
import { cutBarLifted, cutBlocks, needsVolume } from "./snapshot-bar.ts";
import { cutAttempted, cutDeleteAttempted, mayBeGivenUp } from "./snapshot-change.ts";
import { planCut } from "./snapshot-steps.ts";

const at = momentAt(7_000);
const bar = (op: CutBar["op"], opId = `late-${op}`): CutBar => cutBarRecord(op, { opId });
const refused: Outcome<never> = { kind: "refused", failure: failureWith("fail", { call: "ended" }) };
const done = { kind: "done", value: undefined } as const;
const doing = (record: Parameters<typeof planCut>[0]) => planCut(record, 7_000).map((step) => step.do);

it("BR1 the call of a snapshot leaves a bar, and goes on as one in doubt at another gate, or at none", () => {
  const intent = {
    op: "create",
    issuer: "c9/1",
    opId: "first",
    via: "node g1: p",
    gate: "life-1",
    openSince: 5,
  } as const;
  const record = cutRecord({ state: "CREATING", intent });
  const other = { via: "node g2: p", gate: "life-2" };
  const taken = overtaken(record, "first", other, at);
  expect(taken.intent).toEqual({ op: "create", issuer: at.issuer, opId: at.opId, uncertainSince: 7_000, ...other });
  expect(taken.bars).toEqual([{ ...bar("create", "first"), via: "node g1: p", since: 7_000 }]);
  expect(overtaken(record, "first", undefined, at).intent).not.toHaveProperty("via");
});

describe("BR2 while a call that cuts may come late", () => {
  const late = { bars: [bar("create")] };

  it("no delete is planned, and everything else goes on", () => {
    expect(doing(cutRecord({ state: "DELETING", ...late }))).toEqual(["lift"]);
    expect(doing(cutRecord({ state: "CREATING", ...late }))).toEqual(["create", "lift"]);
    expect(doing(cutRecord({ state: "CUT", ...late }))).toEqual(["create", "lift"]);
    expect(doing(cutRecord({ state: "READY", ...late }))).toEqual(["lift"]);
  });

  it("its source is kept, in whatever state it is", () => {
    for (const state of ["CREATING", "CUT", "READY", "DELETING", "FAILED"] as const)
      expect(needsVolume(cutRecord({ state, ...late }))).toBe(true);
    expect(needsVolume(cutRecord({ state: "READY" }))).toBe(false);
    expect(needsVolume(cutRecord({ state: "DELETING", bars: [bar("delete")] }))).toBe(false);
  });

  it("a refusal proves nothing: the record neither fails nor goes", () => {
    for (const goal of ["present", "absent"] as const) {
      const record = cutRecord({ state: "CREATING", goal, externalId: "", ...late });
      const blocked = { reason: "CREATE_UNCERTAIN" };
      expect(cutAttempted(record, refused, at)).toMatchObject({ state: "CREATING", blocked, bars: late.bars });
      expect(cutAttempted({ ...record, bars: [] }, refused, at)?.state).toBe(goal === "present" ? "FAILED" : undefined);
    }
  });

  it("nobody gives it up", () => {
    const blocked = { since: 1, reason: "CREATE_UNCERTAIN", message: "", missingProof: "", clearWith: "" };
    const record = cutRecord({ state: "CREATING", blocked });
    expect(mayBeGivenUp(record)).toBe(true);
    expect(mayBeGivenUp({ ...record, ...late })).toBe(false);
  });
});

describe("BR2 while a call that deletes may come late", () => {
  const late = cutRecord({ state: "DELETING", goal: "absent", bars: [bar("delete")] });

  it("the delete goes on at another gate; done, it owes no call, and its record stays", () => {
    expect(doing(late)).toEqual(["delete", "lift"]);
    const after = cutDeleteAttempted(late, done, at);
    expect(after).toMatchObject({ state: "DELETING", bars: late.bars, updatedAt: 7_000 });
    expect(after).not.toHaveProperty("intent");
    expect(after && doing(after)).toEqual(["lift"]);
    expect(cutDeleteAttempted({ ...late, bars: [] }, done, at)).toBeNull();
  });

  it("a delete that is made once more, for a cut that may come, is made before the record waits for its bar", () => {
    const after = cutDeleteAttempted({ ...late, lateUntil: 9_000 }, done, at);
    expect(after).toMatchObject({ intent: { op: "delete" }, attempts: { nextTry: 9_000 } });
  });
});

describe("BR3 a bar is lifted", () => {
  const two = [bar("delete", "a"), bar("delete", "b")];

  it("by its own name alone, and the record goes on", () => {
    const record = cutRecord({ state: "READY", bars: two });
    expect(cutBarLifted(record, "a", at)).toEqual({ ...record, bars: [two[1]], updatedAt: 7_000 });
    expect(cutBarLifted(record, "c", at)).toBe(record);
    expect(cutBarLifted({ ...record, bars: [bar("create", "a")] }, "a", at)).toMatchObject({
      state: "READY",
      bars: [],
    });
  });

  it("with the record when that was deleted and has no other", () => {
    const { intent: _i, ...record } = cutRecord({ state: "DELETING", bars: two });
    const after = cutBarLifted(record, "a", at);
    expect(after).toMatchObject({ state: "DELETING", bars: [two[1]] });
    expect(after && cutBarLifted(after, "b", at)).toBeNull();
    const owing = cutRecord({ state: "DELETING", bars: [bar("create", "a")] });
    expect(cutBarLifted(owing, "a", at)).toMatchObject({ state: "DELETING", intent: { op: "delete" }, bars: [] });
  });
});

it("every bar is told beside what the record itself is blocked for, with the command for a host that never comes back", () => {
  const record = cutRecord({ state: "READY", bars: [bar("create")] });
  expect(cutBlocks(record)).toEqual([barBlock(record, bar("create"))]);
  expect(cutBlocks(record)[0]).toMatchObject({
    reason: "CALL_BARRED",
    since: 5,
    message: expect.stringContaining('the call "create" of snapshot ns/x was given to "node g1: csi.example"'),
    clearWith: expect.stringContaining("holdfast repair clear-bar x late-create --kind snapshot --namespace ns"),
  });
});

it("the snapshots of a group have none: the group's record alone tells them", () => {
  const {
    volume: _v,
    volumeUid: _u,
    externalVolumeId: _e,
    group: _g,
    ...shared
  } = cutRecord({ bars: [bar("create")] });
  const member = { snapshot: "m", uid: "um", volume: "v", volumeUid: "uv", externalVolumeId: "e" };
  const members = [{ ...member, externalId: "m1", sizeBytes: 0, cutAt: 0, ready: true }];
  expect(membersOf({ ...shared, kind: "group", members, answeredIds: [] })).toMatchObject([{ id: "m", bars: [] }]);
});
