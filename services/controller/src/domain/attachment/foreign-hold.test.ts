import { describe, expect, test } from "vitest";
import { foreignBarred, obstacleTo } from "../claim/grant.ts";
import type { NodeRecord } from "../node/node.ts";
import { claimRecord, goodFacts, momentAt, nodeRecord, volumeRecord } from "../testing/record-fixtures.ts";
import { usersOf } from "../volume/volume-change.ts";
import { foreignAbandoned, foreignNoted, judgeHold, living } from "./foreign-hold.ts";

const epoch = { gen: 1, ctr: 5 };
const life = { machineId: "m", bootId: "b", journalUid: "j", lockId: "l", hostIdentity: "h" };
const n2 = nodeRecord("n2", life);
const held = (claimUid: string) => ({ claimUid, workload: "w", alias: "data", epoch });
const barred = (...uids: readonly string[]) => {
  const { volume } = foreignNoted(volumeRecord(), n2, uids.map(held), 10);
  if (volume === null) throw new Error("it is gone");
  return volume;
};

describe("[I1] a hold beside its record", () => {
  test("is over only in DETACHING, and never under a newer grant than the record knows", () => {
    const detaching = volumeRecord([claimRecord("c1", { state: "DETACHING", epoch })], []);
    expect(judgeHold(detaching, held("c1"))).toBe("over");
    expect(judgeHold(detaching, { ...held("c1"), epoch: { gen: 1, ctr: 4 } })).toBe("over");
    expect(judgeHold(detaching, { ...held("c1"), epoch: { gen: 1, ctr: 6 } })).toBe("newer");
    expect(judgeHold(detaching, { ...held("c1"), epoch: { gen: 2, ctr: 1 } })).toBe("newer");
  });

  test.each(["OFFERED", "ACTIVE", "RELEASING"] as const)("of a claim that is %s goes on", (state) => {
    expect(judgeHold(volumeRecord([claimRecord("c1", { state, epoch })], []), held("c1"))).toBe("held");
  });

  test("of a claim that was not granted yet was granted by a store that has lost it", () => {
    expect(judgeHold(volumeRecord([claimRecord("c1", { state: "QUEUED" })], []), held("c1"))).toBe("newer");
  });

  test("of a claim that was not offered yet was offered by a store that has lost it", () => {
    expect(judgeHold(volumeRecord([claimRecord("c1", { state: "ATTACHING", epoch })], []), held("c1"))).toBe("newer");
  });

  test("[PA3] of a claim whose permit may have left ahead goes on", () => {
    const marked = claimRecord("c1", { state: "ATTACHING", epoch, ahead: "op-1" });
    expect(judgeHold(volumeRecord([marked], []), held("c1"))).toBe("held");
  });

  test("of a claim that the record does not name is proved by no epoch", () => {
    expect(judgeHold({ ...volumeRecord(), epoch: { gen: 1, ctr: 99 } }, held("c1"))).toBe("unnamed");
  });

  test("that is remembered as released holds nothing", () => {
    expect(living([{ ...held("c1"), state: "RELEASED" }])).toEqual([]);
  });
});

test("[I1] a foreign hold bars every grant of its volume and its deletion, and says what ends it", () => {
  const me = claimRecord("me", { state: "QUEUED" });
  const volume = { ...barred("c1"), claims: { me } };
  expect(obstacleTo(volume, me, goodFacts)).toMatchObject({
    reason: "FOREIGN_HOLD",
    message: expect.stringMatching(/node n2 by claim c1 .*holdfast repair abandon-claim data w c1 --namespace ns$/),
  });
  expect(foreignBarred(volume, volume.foreign?.[0] ?? expect.fail())).toContain("c1");
  expect(usersOf(barred("c1"))).toHaveLength(1);
});

test("[I3] a volume with a foreign hold is granted under a higher epoch than that one", () => {
  expect(foreignNoted({ ...volumeRecord(), epoch: { gen: 1, ctr: 3 } }, n2, [held("c1")], 10).volume?.epoch).toEqual(
    epoch,
  );
  const ahead = { gen: 2, ctr: 1 };
  expect(foreignNoted({ ...volumeRecord(), epoch: ahead }, n2, [held("c1")], 10).volume?.epoch).toEqual(ahead);
});

test("foreign holds of a node are those of its last inventory, since they were first seen", () => {
  const first = barred("c1", "c2");
  expect(foreignNoted(first, n2, [held("c1"), held("c2")], 20).volume).toBe(first);
  const next = foreignNoted(first, n2, [held("c2")], 20).volume;
  expect(next?.foreign).toEqual([{ ...held("c2"), node: "n2", since: 10, toldBy: life }]);
  expect(foreignNoted(first, nodeRecord("n1"), [], 20).volume).toBe(first);
  expect(foreignNoted(first, n2, [], 20).volume).not.toHaveProperty("foreign");
});

describe("[I1] a foreign hold is of the life that told it", () => {
  const copy = { ...life, bootId: "b9", lockId: "l9", hostIdentity: "h9" };
  const lives: readonly (readonly [string, Partial<NodeRecord>, readonly string[]])[] = [
    ["the same life, in another process", { instance: "i2" }, []],
    ["a boot of the very host", { bootId: "b2", journalUid: "j2" }, []],
    ["a life of which a person said that that one is over", { ...copy, outlived: life }, []],
    ["a copy of the host", copy, ["c1"]],
    ["a copy of the state directory on the same boot", { lockId: "l9" }, ["c1"]],
    ["another boot that no host proves", { bootId: "b2", hostIdentity: "" }, ["c1"]],
    ["a copy, in whose place another one was over", { ...copy, outlived: { ...life, bootId: "b3" } }, ["c1"]],
  ];
  test.each(lives)("%s comes, and holds nothing", (_what, changes, left) => {
    const { hostIdentity, ...rest } = { ...life, ...changes };
    const teller = nodeRecord("n2", { ...rest, ...(hostIdentity === "" ? {} : { hostIdentity }) });
    const { volume } = foreignNoted(barred("c1"), teller, [], 20);
    expect((volume?.foreign ?? []).map(({ claimUid }) => claimUid)).toEqual(left);
  });

  test("and stands beside the same claim that a copy of its state directory holds, until each has ended", () => {
    const other = nodeRecord("n2", copy);
    const two = foreignNoted(barred("c1"), other, [held("c1")], 20).volume;
    if (two === null) throw new Error("it is gone");
    expect(two.foreign?.map(({ toldBy }) => toldBy?.bootId)).toEqual(["b", "b9"]);
    expect(foreignNoted(two, n2, [], 30).volume?.foreign).toMatchObject([{ claimUid: "c1", toldBy: copy }]);
    const [hold = expect.fail()] = two.foreign ?? [];
    const given = foreignAbandoned(two, hold, { heard: false, evidence: "scrapped" }, momentAt(30)).volume;
    expect(given?.foreign).toMatchObject([{ claimUid: "c1", toldBy: copy }]);
  });

  test("and one of an older record, which names no life, is of whoever has the name", () => {
    const [{ toldBy: _life, ...older } = expect.fail()] = barred("c1").foreign ?? [];
    const volume = volumeRecord([], [], { foreign: [older] });
    expect(foreignNoted(volume, nodeRecord("n2", copy), [], 20).volume).not.toHaveProperty("foreign");
  });
});

test("a foreign hold that is given up leaves its tombstone, and bars until an agent that is heard has let go", () => {
  const volume = barred("c1", "c2");
  const [hold] = volume.foreign ?? [];
  if (hold === undefined) throw new Error("nothing is noted");
  const heard = foreignAbandoned(volume, hold, { heard: true, evidence: "seen" }, momentAt(30));
  expect(heard.volume?.foreign).toHaveLength(2);
  expect(heard.ended).toMatchObject([{ uid: "c1", node: "n2", failure: { reason: "CLAIM_ABANDONED" } }]);
  const silent = foreignAbandoned(volume, hold, { heard: false, evidence: "scrapped" }, momentAt(30));
  expect(silent.volume?.foreign?.map(({ claimUid }) => claimUid)).toEqual(["c2"]);
});
