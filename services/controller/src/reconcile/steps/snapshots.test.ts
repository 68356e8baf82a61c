import type { CsiMethod } from "@holdfast/csi/methods";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  createSnapshotWorld,
  type SnapshotWorld,
  simPlugin,
} from "../../../../../test/support/controller/snapshot-world.ts";
import { cutKinds } from "../../domain/snapshot/snapshot.ts";

let world: SnapshotWorld;

beforeEach(async () => {
  world = await createSnapshotWorld({ storage: { snapshotPolls: 2 } });
  await world.makeVolume("data");
  world.backend.clear();
});

afterEach(async () => {
  expect(world.backend.violations()).toEqual([]);
  await world.close();
});

const minute = 60_000;
const snapshots = () => [...world.backend.state().snapshots.values()];

describe("a snapshot", () => {
  it("C63 O52 is cut, asked for with the same words until it is ready, and deleted by its id", async () => {
    const cut = await world.snapshot("s1", "data", { parameters: { tier: "cold" } });
    const volume = await world.volumeNow("data");
    expect(cut).toMatchObject({ kind: "snapshot", state: "CUT", externalVolumeId: volume?.externalId, polls: 1 });
    expect(cut.externalId).toBe(snapshots()[0]?.id);
    expect(cut.cutAt).toBe(snapshots()[0]?.createdAt.getTime());
    await world.pass(minute);
    expect(await world.now("snapshot", "s1")).toMatchObject({
      state: "READY",
      sizeBytes: 1_048_576,
      externalId: cut.externalId,
    });
    expect(world.calls()).toEqual(["CreateSnapshot", "CreateSnapshot", "CreateSnapshot"]);
    expect(snapshots()).toHaveLength(1);
    expect(await world.remove("snapshot", "s1")).toBe(false);
    expect(await world.now("snapshot", "s1")).toBeUndefined();
    expect(snapshots()).toEqual([]);
    // Asked again it is still gone, and nothing is called for that.
    expect(await world.remove("snapshot", "s1")).toBe(true);
    expect(world.calls("DeleteSnapshot")).toHaveLength(1);
    expect(world.size()).toBe(0);
  });

  it("outlives its volume once it is ready, and holds on to it until then", async () => {
    await world.snapshot("s1", "data");
    await expect(world.deleteVolume("data")).rejects.toMatchObject({
      reason: "VOLUME_IN_USE",
      message: expect.stringContaining("snapshot default/s1, which is being cut from it (CUT)"),
    });
    await world.pass(minute);
    await world.deleteVolume("data");
    await world.idle();
    expect(await world.volumeNow("data")).toBeUndefined();
    expect(await world.now("snapshot", "s1")).toMatchObject({ state: "READY" });
  });

  it("holds on to its volume while it is deleted and the question whether it is ready has no answer", async () => {
    await world.snapshot("s1", "data");
    const answer = Promise.withResolvers<void>();
    world.transport.hold(answer.promise);
    await world.clock.advance(minute);
    await world.snapshots.deleteCut(
      { kind: "snapshot", namespace: "default", id: "s1", uid: "", requestId: "", forget: false },
      world.caller,
    );
    // No delete leaves beside the question: it would cut anew what it does not find.
    expect(await world.now("snapshot", "s1")).toMatchObject({ state: "CUT", goal: "absent" });
    await expect(world.deleteVolume("data")).rejects.toMatchObject({ reason: "VOLUME_IN_USE" });
    world.transport.hold(undefined);
    answer.resolve();
    await world.pass(minute);
    await world.deleteVolume("data");
    await world.idle();
    expect(await world.volumeNow("data")).toBeUndefined();
    expect(world.calls()).toEqual(["CreateSnapshot", "CreateSnapshot", "DeleteSnapshot", "DeleteVolume"]);
  });

  it("that nobody wants any more while it is being cut is cut and then deleted", async () => {
    world.transport.chance((method) => (method === "CreateSnapshot" ? { kind: "lost" } : undefined));
    await world.snapshot("s1", "data");
    expect(await world.now("snapshot", "s1")).toMatchObject({ state: "CREATING", externalId: "" });
    expect(snapshots()).toHaveLength(1);
    expect(await world.remove("snapshot", "s1")).toBe(false);
    world.transport.chance(undefined);
    await world.pass(minute);
    expect(snapshots()).toEqual([]);
    // And once more, for the call that had no answer.
    await world.pass(5 * minute, 5_000);
    expect(await world.now("snapshot", "s1")).toBeUndefined();
    expect(snapshots()).toEqual([]);
  });

  /** The next call of the method has no answer, and reaches the storage when it is told to. */
  const lateOnce = (wanted: CsiMethod) => {
    let arrive: () => void = () => undefined;
    const until = new Promise<void>((resolve) => (arrive = resolve));
    let used = false;
    world.transport.chance((method) => {
      if (method !== wanted || used) return undefined;
      used = true;
      return { kind: "late", until };
    });
    return { arrive, used: () => used };
  };

  it.each(cutKinds)(
    "[I5] a question whether a %s is ready that arrives after its delete leaves nothing",
    async (kind) => {
      await (kind === "group" ? world.group("s1", { m1: "data" }) : world.snapshot("s1", "data"));
      expect(await world.now(kind, "s1")).toMatchObject({ state: "CUT" });
      const late = lateOnce(kind === "group" ? "CreateVolumeGroupSnapshot" : "CreateSnapshot");
      for (let n = 0; n < 60 && !late.used(); n += 1) await world.pass(1_000);
      expect(late.used()).toBe(true);
      expect(await world.remove(kind, "s1")).toBe(false);
      expect(snapshots()).toEqual([]);
      late.arrive();
      await world.idle();
      expect(snapshots()).toHaveLength(1);
      expect(await world.now(kind, "s1")).toMatchObject({
        state: "DELETING",
        attempts: { lastError: { reason: "CUT_UNANSWERED" } },
      });
      await world.pass(6 * minute, 5_000);
      expect(snapshots()).toEqual([]);
      expect(await world.now(kind, "s1")).toBeUndefined();
      expect(world.size()).toBe(0);
    },
  );

  it.each(cutKinds)(
    "a %s that was deleted and may be cut late is deleted once more, however often its plugin or controller comes back",
    async (kind) => {
      const make = kind === "group" ? "CreateVolumeGroupSnapshot" : "CreateSnapshot";
      const undo = kind === "group" ? "DeleteVolumeGroupSnapshot" : "DeleteSnapshot";
      world.transport.chance((method) => (method === make ? { kind: "lost" } : undefined));
      await (kind === "group" ? world.group("s1", { m1: "data" }) : world.snapshot("s1", "data"));
      world.transport.chance(undefined);
      await world.pass(minute);
      await world.remove(kind, "s1");
      for (let n = 0; n < 3; n += 1) {
        world.setFacts((facts) => facts);
        await world.pass(5_000);
        await world.restart();
      }
      expect(world.calls(undo)).toHaveLength(1);
      await world.pass(6 * minute, 5_000);
      expect(world.calls(undo)).toHaveLength(2);
      expect(await world.now(kind, "s1")).toBeUndefined();
    },
  );

  it("[I5] so does one that was under way when its controller died", async () => {
    await world.snapshot("s1", "data");
    const late = lateOnce("CreateSnapshot");
    world.killAt("controller.cut.after-call");
    for (let n = 0; n < 60 && world.alive; n += 1) await world.pass(1_000);
    expect([late.used(), world.alive]).toEqual([true, false]);
    await world.restart();
    await world.remove("snapshot", "s1");
    expect(snapshots()).toEqual([]);
    late.arrive();
    await world.idle();
    expect(snapshots()).toHaveLength(1);
    await world.pass(6 * minute, 5_000);
    expect(snapshots()).toEqual([]);
    expect(await world.now("snapshot", "s1")).toBeUndefined();
  });

  it("is not asked whether it is ready once its delete is wanted, also when that is known only while the secret is read", async () => {
    await world.snapshot("s1", "data");
    const asked = world.calls("CreateSnapshot").length;
    let read: () => void = () => undefined;
    world.holdSecrets(new Promise<void>((resolve) => (read = resolve)));
    for (let n = 0; n < 60 && world.secretsHeld() === 0; n += 1) await world.clock.advance(1_000);
    expect(world.secretsHeld()).toBe(1);
    void world.remove("snapshot", "s1");
    await world.clock.advance(10);
    expect(await world.now("snapshot", "s1")).toMatchObject({ state: "CUT", goal: "absent" });
    world.holdSecrets(undefined);
    read();
    await world.idle();
    expect(world.calls("CreateSnapshot")).toHaveLength(asked);
    expect(snapshots()).toEqual([]);
    // Nothing was sent, and nothing is in doubt for it.
    expect(await world.now("snapshot", "s1")).toBeUndefined();
  });

  it("that was refused is FAILED and goes without a call; one in doubt is blocked until a person gives it up", async () => {
    world.backend.addFault({ method: "CreateSnapshot", code: "INVALID_ARGUMENT", message: "no such tier" });
    expect(await world.snapshot("s1", "data")).toMatchObject({ state: "FAILED", failure: { message: "no such tier" } });
    expect(await world.remove("snapshot", "s1")).toBe(true);
    expect(world.calls("DeleteSnapshot")).toEqual([]);

    let n = 0;
    world.transport.chance((method) => {
      if (method !== "CreateSnapshot") return undefined;
      n += 1;
      return n === 1 ? { kind: "lost" } : { kind: "code", code: "INVALID_ARGUMENT", when: "before" };
    });
    await world.snapshot("s2", "data");
    await world.pass(5_000);
    expect(await world.now("snapshot", "s2")).toMatchObject({
      state: "CREATING",
      blocked: {
        reason: "CREATE_UNCERTAIN",
        clearWith: expect.stringContaining("holdfast snapshot delete s2 --forget --namespace default"),
      },
    });
    await world.remove("snapshot", "s2");
    expect(await world.now("snapshot", "s2")).toMatchObject({ state: "CREATING", goal: "absent" });
    await world.pass(minute);
    expect(await world.remove("snapshot", "s2", true)).toBe(true);
    expect(await world.now("snapshot", "s2")).toBeUndefined();
    await expect(world.remove("snapshot", "s3", true)).rejects.toMatchObject({ reason: "SNAPSHOT_NOT_FOUND" });
  });

  it("in doubt goes on by itself once the plugin answers again", async () => {
    let n = 0;
    world.transport.chance((method) => {
      if (method !== "CreateSnapshot") return undefined;
      n += 1;
      if (n > 3) return undefined;
      return n === 1 ? { kind: "lost" } : { kind: "code", code: "UNAUTHENTICATED", when: "before" };
    });
    await world.snapshot("s1", "data");
    await world.pass(3_000);
    expect((await world.now("snapshot", "s1"))?.blocked?.reason).toBe("CREATE_UNCERTAIN");
    await world.pass(3 * minute);
    expect(await world.now("snapshot", "s1")).toMatchObject({ state: "READY" });
    expect((await world.now("snapshot", "s1"))?.blocked).toBeUndefined();
    expect(snapshots()).toHaveLength(1);
  });

  it("whose id is on record for another one is not believed", async () => {
    const first = await world.snapshot("s1", "data");
    await world.pass(minute);
    world.transport.alter((method, response) =>
      method === "CreateSnapshot"
        ? { snapshot: { ...(response as { snapshot: object }).snapshot, snapshotId: first.externalId } }
        : response,
    );
    expect(await world.snapshot("s2", "data")).toMatchObject({
      state: "CREATING",
      externalId: "",
      blocked: { reason: "INCOMPATIBLE" },
    });
    world.transport.alter(undefined);
    await world.pass(2 * minute);
    expect(await world.now("snapshot", "s2")).toMatchObject({ state: "READY" });
  });

  it("that changes its id between two answers is blocked and keeps the first", async () => {
    const first = await world.snapshot("s1", "data");
    world.transport.alter((method, response) =>
      method === "CreateSnapshot"
        ? { snapshot: { ...(response as { snapshot: object }).snapshot, snapshotId: "another" } }
        : response,
    );
    await world.pass(5_000);
    expect(await world.now("snapshot", "s1")).toMatchObject({
      state: "CUT",
      externalId: first.externalId,
      blocked: { reason: "INCOMPATIBLE" },
    });
    world.transport.alter(undefined);
    await world.pass(2 * minute);
    expect(await world.now("snapshot", "s1")).toMatchObject({ state: "READY", externalId: first.externalId });
  });

  it.each([
    ["another source", { sourceVolumeId: "somebody-elses" }],
    ["no time", { creationTime: undefined }],
    ["a negative size", { sizeBytes: -1n }],
    ["no id", { snapshotId: "" }],
  ])("answered with %s is uncertain, and asked for again", async (_what, wrong) => {
    let times = 2;
    world.transport.alter((method, response) => {
      if (method !== "CreateSnapshot" || times === 0) return response;
      times -= 1;
      return { snapshot: { ...(response as { snapshot: object }).snapshot, ...wrong } };
    });
    const cut = await world.snapshot("s1", "data");
    expect(cut).toMatchObject({ state: "CREATING", externalId: "", intent: { uncertainSince: expect.any(Number) } });
    expect(cut.attempts.lastError?.message).toContain("malformed reply");
    await world.pass(minute);
    expect(await world.now("snapshot", "s1")).toMatchObject({ state: "READY" });
    expect(snapshots()).toHaveLength(1);
  });

  it("O53 that the backend counts among a group of its own is never deleted alone", async () => {
    world.transport.alter((method, response) =>
      method === "CreateSnapshot"
        ? { snapshot: { ...(response as { snapshot: object }).snapshot, groupSnapshotId: "their-group" } }
        : response,
    );
    await world.snapshot("s1", "data");
    await world.pass(minute);
    await world.remove("snapshot", "s1");
    expect(await world.now("snapshot", "s1")).toMatchObject({
      state: "DELETING",
      blocked: { reason: "BACKEND_GROUP", message: expect.stringContaining("their-group") },
    });
    await world.pass(10 * minute, 10_000);
    expect(world.calls("DeleteSnapshot")).toEqual([]);
    expect(await world.remove("snapshot", "s1", true)).toBe(true);
  });

  it("waits for its plugin and for the store, and deletes nothing out of a store that is not vetted", async () => {
    await world.snapshot("s1", "data");
    world.setFacts((facts) => facts, false);
    await world.pass(minute);
    const calls = world.calls().length;
    expect(await world.now("snapshot", "s1")).toMatchObject({ state: "CUT" });
    world.setFacts((facts) => facts, true);
    await world.pass(minute);
    expect(world.calls().length).toBeGreaterThan(calls);
    expect(await world.now("snapshot", "s1")).toMatchObject({ state: "READY" });
    world.setGate(false);
    await world.remove("snapshot", "s1");
    await world.pass(2 * minute);
    expect(world.calls("DeleteSnapshot")).toEqual([]);
    await expect(world.snapshot("s2", "data")).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    world.setGate(true);
    await world.idle();
    expect(snapshots()).toEqual([]);
  });

  it("is blocked while the backend refuses to delete it, with the plugin's own words", async () => {
    await world.snapshot("s1", "data");
    await world.pass(minute);
    world.backend.addFault({
      method: "DeleteSnapshot",
      code: "FAILED_PRECONDITION",
      message: "a clone needs it",
      times: 2,
    });
    await world.remove("snapshot", "s1");
    expect(await world.now("snapshot", "s1")).toMatchObject({
      state: "DELETING",
      blocked: { reason: "PLUGIN_REFUSED", message: "a clone needs it" },
    });
    await world.pass(3 * minute);
    expect(await world.now("snapshot", "s1")).toBeUndefined();
    expect(snapshots()).toEqual([]);
  });

  it("is made with the secrets of its volume, and each family of calls with its own", async () => {
    await world.close();
    const secret = (value: string) => ({ key: value });
    world = await createSnapshotWorld({
      storage: { secrets: { CreateSnapshot: secret("make"), DeleteSnapshot: secret("unmake") } },
      env: { MAKE: '{"key":"make"}', UNMAKE: '{"key":"unmake"}' },
    });
    await world.makeVolume("data", { secretRefs: { snapshot: "env:MAKE" } });
    expect(await world.snapshot("s1", "data")).toMatchObject({ state: "READY", secretRefs: { create: "env:MAKE" } });
    await world.remove("snapshot", "s1");
    // It falls back to the secret of the create, which this storage does not take.
    expect(await world.now("snapshot", "s1")).toMatchObject({
      state: "DELETING",
      blocked: { reason: "CREDENTIALS_REFUSED" },
    });
    const secretRefs = { create: "env:MAKE", delete: "env:UNMAKE" };
    expect(await world.snapshot("s2", "data", { secretRefs })).toMatchObject({ state: "READY" });
    await world.remove("snapshot", "s2");
    expect(await world.now("snapshot", "s2")).toBeUndefined();
    expect(JSON.stringify([world.log.lines, await world.now("snapshot", "s1")])).not.toContain('"unmake"');
    world.backend.clear();
  });
});

it("is refused before anything is written when the plugin is known to cut none", async () => {
  world.setFacts((facts) => ({ ...facts, controller: { ...facts.controller, CREATE_DELETE_SNAPSHOT: "no" } }));
  await expect(world.snapshot("s1", "data")).rejects.toMatchObject({
    reason: "CAPABILITY_MISMATCH",
    metadata: { plugin: simPlugin },
  });
  // Not told yet is not "no": it waits.
  world.setFacts((facts) => ({ ...facts, controller: { ...facts.controller, CREATE_DELETE_SNAPSHOT: "unknown" } }));
  expect(await world.snapshot("s1", "data")).toMatchObject({ state: "CREATING" });
  expect(world.calls()).toEqual([]);
  world.setFacts((facts) => ({ ...facts, controller: { ...facts.controller, CREATE_DELETE_SNAPSHOT: "yes" } }));
  await world.pass(2 * minute);
  expect(await world.now("snapshot", "s1")).toMatchObject({ state: "READY" });
});

it("says what it waits for while its plugin is away, and is in no doubt for that", async () => {
  world.setFacts((facts) => facts, false);
  const waiting = await world.snapshot("s1", "data");
  expect(waiting).toMatchObject({
    state: "CREATING",
    attempts: { count: 0, lastError: { reason: "PLUGIN_NOT_READY", message: expect.stringContaining(simPlugin) } },
  });
  expect(waiting.intent).not.toHaveProperty("uncertainSince");
  world.backend.addFault({ method: "CreateSnapshot", code: "OUT_OF_RANGE" });
  world.setFacts((facts) => facts, true);
  await world.idle();
  // Refused at the first call that was made: certainly nothing is there.
  expect(await world.now("snapshot", "s1")).toMatchObject({ state: "FAILED" });
});
