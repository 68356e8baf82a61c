import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planSteps } from "../steps.ts";
import { barRecord, claimRecord, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import { owesRestoreEnd, restoreClaimed, restoreEnded } from "./group-restore.ts";
import type { GroupRestore, VolumeRecord } from "./volume.ts";

const ids = ["a", "b", "c", "d"] as const;
const set: GroupRestore = { uid: "set", group: "g", members: ids.map((id) => ({ source: `old-${id}`, id })) };
const at = momentAt(500);

const member = (id: string, changes: Partial<VolumeRecord> = {}, restore: Partial<GroupRestore> = {}): VolumeRecord =>
  volumeRecord([], [], {
    id,
    uid: id,
    state: "AVAILABLE",
    goal: "present",
    restore: { ...set, ...restore },
    ...changes,
  });
const failed = (id: string, restore: Partial<GroupRestore> = {}) => member(id, { state: "FAILED" }, restore);

/** What becomes of each: `-` as it is, otherwise its state, or its end when it has one. */
const outcome = (volumes: readonly (VolumeRecord | undefined)[], id: string) => {
  const changes = restoreEnded(volumes, id, at);
  return volumes.map((_, i) => {
    const change = changes[i];
    if (change === undefined) return "-";
    return change.volume === null
      ? "gone"
      : (change.volume.restore?.end ?? `${change.volume.state} ${change.volume.goal}`);
  });
};

describe("a set of which one has failed", () => {
  it("GR2 has all others deleted in one step, and remembers it", () => {
    const volumes = [failed("a"), member("b"), member("c", { state: "CREATING" }), undefined];
    expect(outcome(volumes, "a")).toEqual(["undone", "DELETING absent", "CREATING absent", "-"]);
    expect(planSteps(failed("a"), 0).ready.map((step) => step.do)).toEqual(["end restore"]);
    expect(planSteps(failed("a", { end: "undone" }), 0).ready).toEqual([]);
  });

  it("GR2 has their storage deleted although their policy retains what was used", () => {
    const { policy } = member("b");
    const [, other] = restoreEnded([failed("a"), member("b", { policy: { ...policy, reclaim: "retain" } })], "a", at);
    expect(other?.volume).toMatchObject({ state: "DELETING", intent: { op: "delete" } });
  });

  it("GR2 keeps all of them once there was a claim of one, and when that was decided for another one that failed", () => {
    expect(outcome([failed("a"), member("b"), member("c", {}, { claimed: true })], "a")).toEqual(["kept", "-", "-"]);
    expect(outcome([failed("a"), failed("b", { end: "kept" }), member("c")], "a")).toEqual(["kept", "-", "-"]);
    expect(outcome([failed("a"), failed("b", { end: "undone" }), member("c", { goal: "absent" })], "a")).toEqual([
      "undone",
      "-",
      "-",
    ]);
  });

  it("GR3 waits for what uses one of them and for a call that is under way", () => {
    const intent = { op: "expand", epoch: { gen: 0, ctr: 0 }, issuer: "c/1", opId: "o" } as const;
    for (const busy of [{ intent }, { bars: [barRecord("create")] }])
      expect(outcome([failed("a"), member("b"), member("c", busy)], "a")).toEqual(["-", "-", "-"]);
  });

  it("takes no volume of another set, or of none, that has an id of it meanwhile", () => {
    const alone = member("c");
    const { restore: _r, ...none } = alone;
    expect(outcome([failed("a"), member("b", {}, { uid: "other", claimed: true }), none], "a")).toEqual([
      "undone",
      "-",
      "-",
    ]);
  });

  it("decides nothing for one that is not FAILED, or is not wanted any more, or has decided", () => {
    for (const one of [member("a"), member("a", { state: "FAILED", goal: "absent" }), failed("a", { end: "kept" })]) {
      expect(owesRestoreEnd(one)).toBe(false);
      expect(outcome([one, member("b")], "a")).toEqual(["-", "-"]);
    }
  });
});

it("GR2 a claim marks its volume once, and no volume that is alone", () => {
  const marked = restoreClaimed(member("a"));
  expect(marked.restore?.claimed).toBe(true);
  expect(restoreClaimed(marked)).toBe(marked);
  const { restore: _r, ...alone } = member("a");
  expect(restoreClaimed(alone)).toBe(alone);
});

const memberOf = (id: string): fc.Arbitrary<VolumeRecord | undefined> =>
  fc.option(
    fc
      .record({
        state: fc.constantFrom("CREATING" as const, "AVAILABLE" as const, "FAILED" as const, "DELETING" as const),
        goal: fc.constantFrom("present" as const, "present" as const, "absent" as const),
        claimed: fc.boolean(),
        claim: fc.boolean(),
        set: fc.constantFrom("set", "set", "other"),
      })
      .map(({ state, goal, claimed, claim, set: uid }) => {
        const has = state === "AVAILABLE" && goal === "present" && claim;
        const claims = has ? { x: claimRecord("x") } : {};
        return member(id, { state, goal, claims }, { uid, ...(claimed || has ? { claimed: true as const } : {}) });
      }),
    { nil: undefined },
  );

it("GR2 GR3 whatever the others are: all that are wanted go together, or none does; nothing that was claimed ever goes", () => {
  fc.assert(
    fc.property(fc.tuple(...ids.map(memberOf)), fc.constantFrom(...ids), (volumes, id) => {
      const changes = restoreEnded(volumes, id, at);
      const own = volumes.filter((volume) => volume?.restore?.uid === volumes[ids.indexOf(id)]?.restore?.uid);
      const wanted = own.filter((volume) => volume?.goal === "present" && volume.state !== "FAILED");
      const going = volumes.filter((volume, i) => volume?.id !== id && changes[i] !== undefined);
      if (going.length > 0) expect(going.map((one) => one?.id)).toEqual(wanted.map((one) => one?.id));
      for (const volume of going) {
        expect(volume?.restore?.claimed).toBeUndefined();
        expect(own.some((one) => one !== undefined && one.id !== id && one.restore?.claimed === true)).toBe(false);
      }
      // Once it is decided, it is decided once.
      const after = volumes.map((volume, i) => (changes[i] === undefined ? volume : (changes[i].volume ?? undefined)));
      if (changes.length > 0) expect(restoreEnded(after, id, at)).toEqual([]);
    }),
  );
});
