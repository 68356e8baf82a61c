/** Snapshots and groups whose gate does not answer: their call is overtaken at another one, behind a bar. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  createSnapshotWorld,
  type SnapshotWorld,
  simPlugin,
} from "../../../../../test/support/controller/snapshot-world.ts";
import type { Seat } from "../../domain/open-call.ts";
import { nameOnNode } from "../../domain/plugin/instance-name.ts";

let world: SnapshotWorld;
const seat = (node: string, gate = "life-1"): Seat => ({ via: nameOnNode(simPlugin, node), gate });
const [g1, g2] = [seat("g1"), seat("g2")];
const nextLife = seat("g1", "life-2");
const unsized = { capacity: { required: 0, limit: 0 } };

beforeEach(async () => {
  world = await createSnapshotWorld();
  world.setSeats(g1, g2);
  for (const id of ["data", "wal"]) await world.makeVolume(id, unsized);
});
afterEach(async () => {
  expect(world.backend.violations()).toEqual([]);
  await world.close();
});

const kinds = ["snapshot", "group"] as const;
type Kind = (typeof kinds)[number];

const make = (kind: Kind) =>
  kind === "snapshot" ? world.snapshot("x", "data") : world.group("x", { "x-data": "data", "x-wal": "wal" });
const now = (kind: Kind) => world.now(kind, "x");
const barsOf = async (kind: Kind) => (await now(kind))?.bars;
const subjectOf = (kind: Kind) => (kind === "group" ? "group snapshot" : "snapshot");
const left = () => {
  const { snapshots, groups } = world.backend.state();
  return [snapshots.size, groups.size];
};
const calls = (word: "Create" | "Delete") => world.calls(`${word}Snapshot`, `${word}VolumeGroupSnapshot`).length;
const expectGone = async (kind: Kind): Promise<void> => {
  expect(await now(kind)).toBeUndefined();
  expect(left()).toEqual([0, 0]);
};
/** So long a cut without an answer is expected behind its delete, whatever is known of its bar. */
const expectGoneInTime = async (kind: Kind): Promise<void> => {
  await world.pass(310_000, 10_000);
  await expectGone(kind);
};

/** The call that cuts lies at g1, which does not answer any more. */
const frozenCut = async (kind: Kind): Promise<void> => {
  world.gates.gateOf(g1).freeze();
  await make(kind);
  expect(await now(kind)).toMatchObject({ bars: [], intent: { ...g1, openSince: expect.any(Number) } });
  world.setSeats(g2);
  await world.pass(8_000);
  expect(await now(kind)).toMatchObject({ state: "READY", bars: [{ op: "create", ...g1 }] });
};
/** The same of the call that deletes. */
const frozenDelete = async (kind: Kind): Promise<void> => {
  await make(kind);
  world.gates.gateOf(g1).freeze();
  await world.remove(kind, "x");
  world.setSeats(g2);
  await world.pass(8_000);
  expect(await now(kind)).toMatchObject({ state: "DELETING", bars: [{ op: "delete", ...g1 }] });
};
const thaw = async (): Promise<void> => {
  world.gates.gateOf(g1).thaw();
  await world.idle();
};

describe.each(kinds)("a %s that is cut at a gate that does not answer", (kind) => {
  test("BR1 BR3 is cut at another one, and its bar is lifted when the first gate says that the call is over", async () => {
    await frozenCut(kind);
    world.setSeats(g1, g2);
    await world.pass(3_000);
    expect(await barsOf(kind)).toHaveLength(1);
    await thaw();
    await world.pass(60_000);
    expect(await now(kind)).toMatchObject({ state: "READY", bars: [] });
    expect(world.gates.asked.at(-1)).toContain(`${subjectOf(kind)} named ${(await now(kind))?.name}`);
    await world.remove(kind, "x");
    await expectGoneInTime(kind);
  });

  test("[I5] BR2 is not deleted, and keeps its source, before the late call has ended; nothing is left then", async () => {
    await frozenCut(kind);
    await world.remove(kind, "x");
    await world.pass(400_000, 10_000);
    expect(await now(kind)).toMatchObject({ state: "DELETING", bars: [{ op: "create" }] });
    expect(calls("Delete")).toBe(0);
    await expect(world.deleteVolume("data")).rejects.toMatchObject({ reason: "VOLUME_IN_USE" });
    await thaw();
    expect(left()[0]).toBeGreaterThan(0);
    world.setSeats(g1, g2);
    await world.pass(2_000);
    await expectGone(kind);
    expect(calls("Delete")).toBe(1);
    await world.deleteVolume("data");
  });

  test("[I5] BR3 is cut once more at the next life of that gate, which knows of no call", async () => {
    await frozenCut(kind);
    await thaw();
    const before = calls("Create");
    world.setSeats(nextLife, g2);
    await world.pass(2_000);
    expect(await now(kind)).toMatchObject({ state: "READY", bars: [] });
    expect(calls("Create") - before).toBe(1);
    expect(world.gates.asked).toEqual([]);
  });

  test("[I5] BR3 what the next life makes under another id is told, and its bar stands", async () => {
    await frozenCut(kind);
    const { name = "", externalId = "" } = (await now(kind)) ?? {};
    world.transport.alter((method, response) => {
      const { snapshot, groupSnapshot: group } = response as { snapshot?: object; groupSnapshot?: object };
      if (method === "CreateSnapshot") return { snapshot: { ...snapshot, snapshotId: "stranger" } };
      return method === "CreateVolumeGroupSnapshot"
        ? { groupSnapshot: { ...group, groupSnapshotId: "stranger" } }
        : response;
    });
    world.setSeats(nextLife, g2);
    await world.pass(2_000);
    const [bar] = (await barsOf(kind)) ?? [];
    expect(bar?.attempts.lastError).toMatchObject({ reason: "INCOMPATIBLE", message: expect.stringContaining(name) });
    expect(bar?.attempts.lastError?.message).toContain("stranger");
    expect(await now(kind)).toMatchObject({ state: "READY", externalId });
  });

  test("BR2 is not given up for lost while its call may come", async () => {
    world.gates.gateOf(g1).freeze();
    await make(kind);
    world.transport.chance((method) =>
      method.startsWith("Create") ? { kind: "code", code: "INVALID_ARGUMENT", when: "before" } : undefined,
    );
    world.setSeats(g2);
    await world.pass(8_000);
    await world.remove(kind, "x");
    await world.pass(90_000, 10_000);
    expect(await now(kind)).toMatchObject({ state: "CREATING", blocked: { reason: "CREATE_UNCERTAIN" }, bars: [{}] });
    await expect(world.remove(kind, "x", true)).rejects.toMatchObject({
      reason: "REPAIR_NOT_APPLICABLE",
      message: expect.stringMatching(/holdfast repair clear-bar x .* --kind (snapshot|group) --namespace default/),
    });
    world.transport.chance(undefined);
    await thaw();
    world.setSeats(g1, g2);
    await world.pass(90_000, 10_000);
    await expectGoneInTime(kind);
  });

  test("is overtaken nowhere in a store whose format has no bars", async () => {
    await world.close();
    world = await createSnapshotWorld({ bars: () => false });
    world.setSeats(g1, g2);
    for (const id of ["data", "wal"]) await world.makeVolume(id, unsized);
    world.gates.gateOf(g1).freeze();
    await make(kind);
    world.setSeats(g2);
    await world.pass(60_000);
    expect(await now(kind)).toMatchObject({ state: "CREATING", blocked: { reason: "CALL_MAY_BE_OPEN" }, bars: [] });
  });
});

describe.each(kinds)("a %s that is deleted at a gate that does not answer", (kind) => {
  test("[I5] BR1 BR2 is deleted at another one, and keeps its name until the first gate says that the call is over", async () => {
    await frozenDelete(kind);
    expect(left()).toEqual([0, 0]);
    expect(await now(kind)).not.toHaveProperty("intent");
    const deletes = calls("Delete");
    await world.pass(120_000, 10_000);
    expect(calls("Delete")).toBe(deletes);
    await expect(make(kind)).rejects.toMatchObject({
      reason: kind === "group" ? "SNAPSHOT_GROUP_EXISTS" : "SNAPSHOT_EXISTS",
    });
    await thaw();
    expect(await now(kind)).toBeDefined();
    world.setSeats(g1, g2);
    await world.pass(2_000);
    await expectGone(kind);
    expect(world.gates.asked.at(-1)).toMatch(new RegExp(`: ${subjectOf(kind)} [^ ]+$`));
    expect(await make(kind)).toMatchObject({ state: "READY" });
  });

  test("BR3 is deleted once more at the next life of that gate", async () => {
    await frozenDelete(kind);
    await thaw();
    const before = calls("Delete");
    world.setSeats(nextLife, g2);
    await world.pass(2_000);
    await expectGone(kind);
    expect(calls("Delete") - before).toBe(1);
  });
});

test("[I5] BR2 a question whether it is ready that lies at a gate keeps back the delete that was wanted meanwhile", async () => {
  await world.close();
  world = await createSnapshotWorld({ storage: { snapshotPolls: 3 } });
  world.setSeats(g1, g2);
  await world.makeVolume("data", unsized);
  await make("snapshot");
  world.gates.gateOf(g1).freeze();
  await world.pass(2_000);
  expect(await now("snapshot")).toMatchObject({ state: "CUT", intent: { openSince: expect.any(Number) } });
  await world.remove("snapshot", "x");
  world.setSeats(g2);
  await world.pass(60_000);
  expect(await now("snapshot")).toMatchObject({ state: "DELETING", bars: [{ op: "create" }] });
  expect(calls("Delete")).toBe(0);
  await thaw();
  world.setSeats(g1, g2);
  await world.pass(2_000);
  expect(await barsOf("snapshot")).toEqual([]);
  await expectGoneInTime("snapshot");
});

test("BR3 a bar of a cut is repeated only when the record's own question of the same name has its answer", async () => {
  await world.close();
  world = await createSnapshotWorld({ storage: { snapshotPolls: 20 } });
  world.setSeats(g1, g2);
  await world.makeVolume("data", unsized);
  world.gates.gateOf(g1).freeze();
  await make("snapshot");
  world.setSeats(g2);
  await world.pass(8_000);
  await thaw();
  world.setSeats(nextLife, g2);
  await world.pass(5_000);
  expect(await now("snapshot")).toMatchObject({ state: "CUT", bars: [{ op: "create" }] });
  await world.pass(600_000, 10_000);
  expect(await now("snapshot")).toMatchObject({ state: "READY", bars: [] });
});

test("an event of a record with a bar asks any controller to look at it: the one that can lift it may be another", async () => {
  const from = await world.store.head();
  await frozenCut("snapshot");
  for await (const { ref, body } of world.store.watch(from, AbortSignal.timeout(5_000)))
    if (ref.kind === "snapshot" && JSON.parse(body).anyone === true) return;
  expect.fail("no event asks");
});

test("[I5] BR3 a copy holds on to its source while its create may come late: the repeat needs it", async () => {
  world.gates.gateOf(g1).freeze();
  await world.makeVolume("copy", { ...unsized, contentSource: { kind: "volume", id: "data" } });
  world.setSeats(g2);
  await world.pass(8_000);
  expect(await world.volumeNow("copy")).toMatchObject({ state: "AVAILABLE", bars: [{ op: "create", ...g1 }] });
  await expect(world.deleteVolume("data")).rejects.toMatchObject({
    reason: "VOLUME_IN_USE",
    message: expect.stringMatching(/volume default\/copy, which may be made from it once more .*repair clear-bar copy/),
  });
  await thaw();
  world.setSeats(nextLife, g2);
  await world.pass(2_000);
  expect(await world.volumeNow("copy")).toMatchObject({ bars: [] });
  await world.deleteVolume("data");
});
