/** A person says that a call has ended which nobody can ask about any more. */
import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { caller, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import type { SnapshotRecord } from "../../domain/snapshot/snapshot.ts";
import { createChanges } from "../../records/changes.ts";
import { createCutRecords } from "../../records/snapshot-records.ts";
import type { Asked } from "./repair-model.ts";

let world: World;
const stop = new AbortController();
beforeEach(async () => {
  world = await createWorld();
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const dry: Asked = { reason: "ticket 4711", dryRun: true, confirm: "", requestId: "" };
const target = { namespace: "default", evidence: "the host of c9 is off" };
const takeOver = (asked: Asked, of: "volume" | "snapshot" = "volume", id = "data") =>
  world.repair.takeOver({ ...target, of, id, ...asked }, caller);
const confirmed = async (of: "volume" | "snapshot", id: string) => {
  const { confirmWith } = await takeOver(dry, of, id);
  return await takeOver({ ...dry, dryRun: false, confirm: confirmWith, requestId: "r1" }, of, id);
};

/** The attach was given by a controller that is over, and not by a life of this one; no instance is there that it could go to. */
const stranded = async (): Promise<void> => {
  await world.makeVolume("data");
  world.backend.script("publish", { kind: "lost" });
  await world.claim("job", "n1", ["data"]);
  await world.idle();
  const settles = { opId: (await world.volume("data")).intent?.opId ?? "", end: "ended" } as const;
  await world.records.change(
    { namespace: "default", id: "data" },
    (v) => ({
      volume: v.intent === undefined ? v : { ...v, intent: { ...v.intent, opId: "of c9", issuer: "c9/1-x" } },
      ended: [],
      notes: [],
    }),
    { settles },
  );
  world.backend.setFacts({ ready: false, reason: "it is away" });
  world.away.add("c9/1-x");
};
const attaches = () => world.backend.calls.filter((call) => call.startsWith("publish")).length;

describe("TakeOver", () => {
  test("[I5] of a volume: nobody goes on with the call before, it is told why, and the doubt about it stays", async () => {
    await stranded();
    const before = attaches();
    await world.pass(60_000);
    expect(attaches()).toBe(before);
    expect(Object.values((await world.volume("data")).claims)[0]?.blocked).toMatchObject({
      reason: "CALL_MAY_BE_OPEN",
      message: expect.stringMatching(/attach.*"the plugin's socket".*c9\/1-x/),
      clearWith: expect.stringContaining("holdfast repair take-over data --namespace default"),
    });
    const { items } = await world.repair.listStuck(
      { namespace: "", plugin: "", node: "", reasons: ["CALL_MAY_BE_OPEN"] },
      { size: 5, after: undefined },
    );
    expect(items).toMatchObject([{ workload: "job", node: "n1" }]);
    const commits = world.store.commits();
    const told = await takeOver(dry);
    expect(told).toMatchObject({
      dryRun: true,
      auditId: "",
      confirmWith: expect.stringContaining("c9/1-x, has ended"),
    });
    expect(world.store.commits()).toBe(commits);
    const wrong = takeOver({ ...dry, dryRun: false, confirm: "yes" });
    await expect(wrong).rejects.toMatchObject({ kind: "invalid" });

    const outcome = await confirmed("volume", "data");
    world.backend.setFacts({ ready: true, reason: "" });
    expect(await world.audit.get(outcome.auditId)).toMatchObject({ verb: "TakeOver", evidence: target.evidence });
    world.backend.script("publish", { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    await world.pass(120_000);
    // The refusal of the next attempt proves nothing of the first: its undo was made.
    expect(await world.states("job")).toEqual(["FAILED"]);
    expect(world.backend.calls.some((call) => call.startsWith("unpublish"))).toBe(true);
    expect(world.backend.attachments()).toEqual([]);
    expect(await confirmedAgain()).toMatchObject({ auditId: outcome.auditId });
  });

  const confirmedAgain = () => takeOver({ ...dry, dryRun: false, confirm: "whatever", requestId: "r1" });

  test("is refused where no call may be open; and what would let go of an open call is refused without it", async () => {
    await world.makeVolume("idle");
    await expect(takeOver(dry, "volume", "idle")).rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
    await expect(takeOver(dry, "volume", "none")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    await expect(takeOver(dry, "snapshot", "none")).rejects.toMatchObject({ reason: "SNAPSHOT_NOT_FOUND" });
    await stranded();
    world.agents.silence("n1", true);
    world.nodes.set("n1", {}, "suspect");
    const { uid } = await world.volume("data");
    const forget = world.repair.forgetVolume({ namespace: "default", id: "data", uid, ...dry }, caller);
    await expect(forget).rejects.toMatchObject({ reason: "CALL_MAY_BE_OPEN", metadata: { issuer: "c9/1-x" } });
  });

  test("of a snapshot: with its audit record in the same commit", async () => {
    const { store, clock } = world;
    const ids = { uuid: () => randomUUID(), random: () => 0.5 };
    const route = () => ({ via: "node n7: p" });
    const deps = { store, clock, ids, issuer: "c9/1-x", changes: createChanges(), route, signal: stop.signal };
    const cuts = createCutRecords(deps);
    const ref = { kind: "snapshot", namespace: "default", id: "monday" } as const;
    await cuts.insert(
      ({ now, opId, issuer }): SnapshotRecord => ({
        ...ref,
        uid: ids.uuid(),
        name: ids.uuid(),
        externalId: "",
        plugin,
        pluginVersion: "",
        parameters: {},
        secretRefs: {},
        labels: {},
        cutAt: 0,
        state: "CREATING",
        goal: "present",
        intent: { op: "create", opId, issuer },
        bars: [],
        attempts: { count: 0, nextTry: 0 },
        polls: 0,
        requestId: "",
        createdAt: now,
        updatedAt: now,
        stateSince: now,
        changedBy: caller,
        volume: "data",
        volumeUid: "u1",
        externalVolumeId: "ext-1",
        group: "",
        externalGroupId: "",
        sizeBytes: 0,
      }),
      [],
    );
    expect((await cuts.get(ref))?.record.intent).toMatchObject({ via: "node n7: p" });
    const commits = world.store.commits();
    const outcome = await confirmed("snapshot", "monday");
    expect(world.store.commits() - commits).toBe(1);
    expect(await world.audit.get(outcome.auditId)).toMatchObject({ verb: "TakeOver" });
    const { intent } = (await cuts.get(ref))?.record ?? {};
    expect(intent).toMatchObject({ op: "create", uncertainSince: expect.any(Number) });
    expect(intent).not.toHaveProperty("via");
  });
});
