import { createMetrics } from "@holdfast/shared/metrics";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createSnapshotWorld, type SnapshotWorld } from "../../../test/support/controller/snapshot-world.ts";
import { caller, createWorld, type World } from "../../../test/support/controller/world.ts";
import { gateAway } from "./domain/bar-block.ts";
import { barRecord, volumeRecord } from "./domain/testing/record-fixtures.ts";
import { createSnapshotStanding } from "./records/snapshot-standing.ts";
import { createStanding } from "./records/standing.ts";
import { measureSnapshots, measureStanding } from "./standing-metrics.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(() => world.close());

const measured = (most?: number) => {
  const metrics = createMetrics();
  const { records, clock } = world;
  const standing = createStanding({ records, clock, ...(most === undefined ? {} : { most }) });
  measureStanding(metrics, { standing, slotsWaiting: () => 3, now: clock.now });
  return async (name: string): Promise<readonly string[]> =>
    (await metrics.text()).split("\n").filter((line) => line.startsWith(name) && !line.endsWith(" 0"));
};

test("W45 what is owed and what is blocked is counted from its index, with the age of the oldest", async () => {
  const lines = measured();
  for (const id of ["a", "b", "c"]) await world.makeVolume(id);
  await world.claim("db", "n1", ["b"]);
  await world.idle();
  world.backend.chance((method) =>
    method === "publish" ? { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" } : undefined,
  );
  await world.claim("web", "n1", ["a"]);
  await world.idle();
  await world.claim("db2", "n2", ["b"], { queue: { enabled: true, deadlineMs: undefined } });
  await world.idle();
  await world.clock.advance(5_000);
  expect(await lines("holdfast_claims_owed{")).toEqual([
    'holdfast_claims_owed{state="QUEUED"} 1',
    'holdfast_claims_owed{state="ATTACHING"} 1',
    'holdfast_claims_owed{state="ACTIVE"} 1',
  ]);
  expect(await lines("holdfast_intents{")).toEqual(['holdfast_intents{operation="attach"} 1']);
  expect(await lines("holdfast_blocked{")).toEqual(['holdfast_blocked{reason="FOREIGN_ATTACHMENT"} 1']);
  const [oldest = ""] = await lines("holdfast_blocked_oldest_seconds{");
  expect(Number(oldest.split(" ")[1])).toBeGreaterThanOrEqual(5);
  expect(await lines("holdfast_attach_slots_waiting")).toEqual(["holdfast_attach_slots_waiting 3"]);
  expect(await lines("holdfast_standing_partial ")).toEqual([]);
});

test("what is counted is counted anew after a moment, also when the wall clock was set back by a day", async () => {
  const lines = measured();
  await world.makeVolume("a");
  expect(await lines("holdfast_claims_owed{")).toEqual([]);
  world.backend.chance((method) =>
    method === "publish" ? { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" } : undefined,
  );
  await world.claim("db", "n1", ["a"]);
  await world.idle();
  world.clock.setWall(world.clock.now() - 86_400_000);
  await world.clock.advance(5_000);
  expect(await lines("holdfast_claims_owed{")).toEqual(['holdfast_claims_owed{state="ATTACHING"} 1']);
});

test("what blocks a change of a volume is counted as what blocks the volume", async () => {
  const lines = measured();
  await world.makeVolume("data");
  await world.claim("web", "n1", ["data"]);
  await world.idle();
  world.agents.script("expand", { kind: "code", code: "FAILED_PRECONDITION" });
  const capacity = { required: 5_000_000, limit: 0 };
  await world.commands.expandVolume({ namespace: "default", id: "data", capacity, requestId: "" }, caller);
  await world.idle();
  expect(await lines("holdfast_blocked{")).toEqual(['holdfast_blocked{reason="EXPAND_IN_USE"} 1']);
});

test("gates that have an overtaken call and do not answer are counted, each once, and those that answer are not", async () => {
  const barOf = (via: string, reason?: string) => {
    const lastError = reason === undefined ? {} : { lastError: { reason, message: "", at: 1 } };
    return barRecord("n1", { via, attempts: { count: 1, nextTry: 0, ...lastError } });
  };
  const bars = [barOf("gone", gateAway), barOf("gone", gateAway), barOf("there", "DEADLINE_EXCEEDED"), barOf("new")];
  const volumes = [{ volume: volumeRecord([], [], { bars }), rev: 1 }];
  const records = { list: async () => ({ volumes, next: undefined }) };
  const metrics = createMetrics();
  const standing = createStanding({ records, clock: world.clock });
  measureStanding(metrics, { standing, slotsWaiting: () => 0, now: world.clock.now });
  expect((await metrics.text()).split("\n")).toContain("holdfast_gates_silent 1");
});

describe("snapshots", () => {
  let cut: SnapshotWorld;
  beforeEach(async () => {
    cut = await createSnapshotWorld({ storage: { snapshotPolls: 1_000 } });
    await cut.makeVolume("data");
  });
  afterEach(() => cut.close());

  const told = (most?: number) => {
    const metrics = createMetrics();
    const { cuts, clock } = cut;
    const standing = createSnapshotStanding({ cuts, clock, ...(most === undefined ? {} : { most }) });
    measureSnapshots(metrics, { standing, working: () => 2, now: clock.now });
    return async (): Promise<readonly string[]> =>
      (await metrics.text()).split("\n").filter((line) => line.startsWith("holdfast_snap") && !line.endsWith(" 0"));
  };

  test("are counted by what is owed, with groups apart and their members not at all", async () => {
    await cut.snapshot("alone", "data");
    await cut.group("both", { one: "data" });
    expect(await told()()).toEqual([
      'holdfast_snapshots_owed{kind="snapshot",state="CUT"} 1',
      'holdfast_snapshots_owed{kind="group",state="CUT"} 1',
      "holdfast_snapshots_working 2",
    ]);
  });

  test("that are blocked are told with their reason and the age of the oldest, and as 0 once that is over", async () => {
    await cut.snapshot("kept", "data");
    cut.backend.addFault({
      method: "DeleteSnapshot",
      code: "FAILED_PRECONDITION",
      message: "a clone needs it",
      times: 2,
    });
    await cut.remove("snapshot", "kept");
    await cut.pass(10_000);
    const lines = told();
    const found = await lines();
    expect(found).toContain('holdfast_snapshots_blocked{reason="PLUGIN_REFUSED"} 1');
    const oldest = found.find((line) => line.startsWith("holdfast_snapshots_blocked_oldest_seconds{"));
    expect(Number(oldest?.split(" ")[1])).toBeGreaterThanOrEqual(10);
    await cut.pass(180_000);
    expect(await cut.now("snapshot", "kept")).toBeUndefined();
    expect((await lines()).filter((line) => line.includes("blocked"))).toEqual([]);
  });

  test("are looked at up to a bound, which is said", async () => {
    await cut.snapshot("alone", "data");
    expect(await told(0)()).toContain("holdfast_snapshots_partial 1");
    expect(await told()()).not.toContain("holdfast_snapshots_partial 1");
  });
});

test("[N1] a count is bounded and says so; [N2] all gauges of a scrape share it", async () => {
  for (const id of ["a", "b"]) {
    await world.makeVolume(id);
    world.backend.script("publish", { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" });
    await world.claim(`w-${id}`, "n1", [id]);
    await world.idle();
  }
  const lines = measured(0);
  expect(await lines("holdfast_standing_partial ")).toEqual(["holdfast_standing_partial 1"]);
  const list = vi.spyOn(world.store, "list");
  const whole = measured();
  await whole("holdfast_");
  await whole("holdfast_");
  expect(list.mock.calls.map(([query]) => query.index)).toEqual(["volume-unsettled", "volume-blocked"]);
});
