import { describe, expect, test } from "vitest";
import { foreignBarred, obstacleTo } from "../claim/grant.ts";
import { claimRecord, goodFacts, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import { usersOf } from "../volume/volume-change.ts";
import { foreignAbandoned, foreignNoted, judgeHold, living } from "./foreign-hold.ts";

const epoch = { gen: 1, ctr: 5 };
const held = (claimUid: string) => ({ claimUid, workload: "w", alias: "data", epoch });
const barred = (...uids: readonly string[]) => {
  const { volume } = foreignNoted(volumeRecord(), "n2", uids.map(held), 10);
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
  expect(foreignNoted({ ...volumeRecord(), epoch: { gen: 1, ctr: 3 } }, "n2", [held("c1")], 10).volume?.epoch).toEqual(
    epoch,
  );
  const ahead = { gen: 2, ctr: 1 };
  expect(foreignNoted({ ...volumeRecord(), epoch: ahead }, "n2", [held("c1")], 10).volume?.epoch).toEqual(ahead);
});

test("foreign holds of a node are those of its last inventory, since they were first seen", () => {
  const first = barred("c1", "c2");
  expect(foreignNoted(first, "n2", [held("c1"), held("c2")], 20).volume).toBe(first);
  const next = foreignNoted(first, "n2", [held("c2")], 20).volume;
  expect(next?.foreign).toEqual([{ ...held("c2"), node: "n2", since: 10 }]);
  expect(foreignNoted(first, "n1", [], 20).volume).toBe(first);
  expect(foreignNoted(first, "n2", [], 20).volume).not.toHaveProperty("foreign");
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
