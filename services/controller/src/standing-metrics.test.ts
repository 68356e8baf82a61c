import { createMetrics } from "@holdfast/shared/metrics";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createWorld, type World } from "../../../test/support/controller/world.ts";
import { createStanding } from "./records/standing.ts";
import { measureStanding } from "./standing-metrics.ts";

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
