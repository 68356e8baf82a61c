import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, createWorld, plugin, volumeInput, type World } from "../../../../../test/support/controller/world.ts";
import { deleteMarkRef } from "../../records/volume/volume-codec.ts";
import type { CreateVolumeInput } from "../model.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
  for (const node of ["n1", "n2", "n3"]) inZone(node, node === "n3" ? "b" : "a");
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const inZone = (node: string, zone: string): void => {
  const half = world.nodes.get(node)?.record.plugins[0];
  if (half !== undefined) world.nodes.set(node, { plugins: [{ ...half, name: plugin, topology: { zone } }] });
};

const make = async (change: Partial<CreateVolumeInput> = {}) => {
  await world.commands.createVolume(volumeInput("data", { lateBinding: true, ...change }), caller);
  await world.idle();
  return await world.volume("data");
};

const remove = () => world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
const creates = () => world.backend.calls.filter((call) => call.startsWith("create"));

describe("a volume that is made for the node of its first claim", () => {
  it("W54: nothing is called for it before, then it is made where the scheduler chose, and given to the claim", async () => {
    const before = await make();
    expect(before).toMatchObject({ state: "CREATING", binding: { node: "", place: {} } });
    expect(before).not.toHaveProperty("intent");
    expect(creates()).toEqual([]);
    // Nobody has to ask for queueing: the claim is what the volume waits for.
    await world.claim("web", "n3", ["data"]);
    await world.idle();
    expect(await world.volume("data")).toMatchObject({
      state: "AVAILABLE",
      binding: { node: "n3", place: { zone: "b" } },
    });
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(creates()).toHaveLength(1);
  });

  it("[I4] the place is durable before the call, and the call is the same after a controller died", async () => {
    await make();
    world.killAt("controller.create.after-commit");
    await world.claim("web", "n3", ["data"]);
    await world.idle();
    expect(world.alive).toBe(false);
    await world.restart();
    await world.pass(60_000);
    expect(await world.volume("data")).toMatchObject({ state: "AVAILABLE", binding: { node: "n3" } });
    expect(world.backend.volumes()).toHaveLength(1);
  });

  it("waits for a node that is ready, and leaves a claim that is out of reach in its queue", async () => {
    await make({ topology: { required: [{ zone: "a" }], preferred: [] } });
    await expect(world.claim("far", "n3", ["data"])).rejects.toMatchObject({ reason: "TOPOLOGY_MISMATCH" });
    world.nodes.set("n1", {}, "suspect");
    await world.claim("web", "n1", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.idle();
    expect(creates()).toEqual([]);
    world.nodes.set("n1", {}, "alive");
    await world.idle();
    expect(await world.volume("data")).toMatchObject({ state: "AVAILABLE", binding: { place: { zone: "a" } } });
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("is not made for a node that is drained, whoever waits there", async () => {
    await make();
    world.nodes.set("n3", { drain: { since: 1, reason: "disks", mode: "wait" } });
    await world.claim("gone", "n3", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.idle();
    expect(creates()).toEqual([]);
    await world.claim("web", "n1", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.idle();
    expect(await world.volume("data")).toMatchObject({ state: "AVAILABLE", binding: { node: "n1" } });
  });

  it("a claim from another place is refused once it is being made", async () => {
    await make();
    world.backend.script("create", { kind: "dropped" });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(await world.volume("data")).toMatchObject({ state: "CREATING", binding: { node: "n1" } });
    await expect(world.claim("far", "n3", ["data"])).rejects.toMatchObject({ reason: "TOPOLOGY_MISMATCH" });
    await world.pass(60_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("ends the claims that wait for it when the plugin refuses, with the rest of their sets", async () => {
    await make();
    await world.makeVolume("other");
    world.backend.script("create", { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
    await world.claim("web", "n1", ["data", "other"]);
    await world.pass(5_000);
    expect(await world.states("web")).toEqual(["FAILED", "FAILED"]);
    expect(await world.volume("data")).toMatchObject({ state: "FAILED", failure: { reason: "OUT_OF_RANGE" } });
    expect(await remove()).toBeUndefined();
    expect(world.backend.volumes()).toHaveLength(1);
  });

  const noRoom = { kind: "unknown", advice: "again", code: "RESOURCE_EXHAUSTED" } as const;
  const failureOf = async (workload: string) => {
    const views = await world.commands.selectClaims({ namespace: "default", workload, aliases: [], claimUids: [] });
    return views.map(({ claim }) => claim.failure);
  };

  it("is made elsewhere when there is no room: the scheduler is told, and a claim from another place decides anew", async () => {
    await make();
    await world.makeVolume("other");
    const before = world.backend.calls.length;
    world.backend.script("create", noRoom);
    await world.claim("web", "n1", ["data", "other"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["FAILED", "FAILED"]);
    const failures = await failureOf("web");
    expect(failures.map((failure) => failure?.reason).toSorted()).toEqual(["CAPACITY_EXHAUSTED", "SET_MEMBER_FAILED"]);
    expect(failures.find((failure) => failure?.reason === "CAPACITY_EXHAUSTED")?.message).toContain(
      "no room for volume default/data where node n1 is (zone=a)",
    );
    expect(await world.volume("data")).toMatchObject({
      state: "CREATING",
      binding: { node: "", place: {} },
      attempts: { lastError: { code: "RESOURCE_EXHAUSTED" } },
    });
    await world.pass(600_000, 30_000);
    expect(world.backend.calls.slice(before)).toHaveLength(1);
    await world.claim("web", "n3", ["data", "other"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE", "ACTIVE"]);
    expect(await world.volume("data")).toMatchObject({
      state: "AVAILABLE",
      binding: { node: "n3", place: { zone: "b" } },
    });
    expect(world.backend.volumes()).toHaveLength(2);
  });

  it("goes to the next in its queue, and is deleted without a call when nobody is left", async () => {
    await make();
    world.backend.script("create", noRoom, noRoom);
    world.nodes.set("n3", {}, "suspect");
    const waiting = { queue: { enabled: true, deadlineMs: undefined } };
    await world.claim("far", "n3", ["data"], waiting);
    world.nodes.set("n1", {}, "suspect");
    world.nodes.set("n2", {}, "suspect");
    await world.claim("web", "n1", ["data"], waiting);
    await world.claim("web-2", "n2", ["data"], waiting);
    await world.idle();
    world.nodes.set("n1", {}, "alive");
    world.nodes.set("n2", {}, "alive");
    await world.idle();
    expect([await world.states("web"), await world.states("web-2"), await world.states("far")]).toEqual([
      ["FAILED"],
      ["FAILED"],
      ["QUEUED"],
    ]);
    await world.release("far");
    expect(await remove()).toBeUndefined();
    await world.pass(60_000);
    expect(world.backend.calls.map((call) => call.split(" ")[0])).toEqual(["create", "create"]);
  });

  it.each(["lives", "dies"])(
    "[I5] after an attempt without answer is looked for, deleted, and only then made elsewhere, when its controller %s",
    async (how) => {
      await make();
      const { name } = await world.volume("data");
      world.backend.script("create", { kind: "lost" }, noRoom, { kind: "dropped" });
      await world.claim("web", "n1", ["data"]);
      await world.idle();
      expect(world.backend.volumes()).toHaveLength(1);
      await world.clock.advance(700);
      await world.idle();
      expect((await failureOf("web"))[0]?.reason).toBe("CAPACITY_EXHAUSTED");
      expect(await world.volume("data")).toMatchObject({
        state: "CREATING",
        binding: { node: "n1", undo: true },
        blocked: { reason: "CREATE_UNCERTAIN" },
      });
      // Elsewhere it may be waited for, and is not begun.
      await world.claim("web", "n3", ["data"]);
      if (how === "dies") world.killAt("controller.delete.after-call");
      await world.pass(60_000);
      if (how === "dies") await world.restart();
      await world.pass(120_000);
      expect(await world.states("web")).toEqual(["ACTIVE"]);
      const after = await world.volume("data");
      expect(after).toMatchObject({ state: "AVAILABLE", binding: { node: "n3", place: { zone: "b" } } });
      expect(after.binding).not.toHaveProperty("undo");
      expect(after.name).not.toBe(name);
      expect(world.backend.volumes()).toEqual([after.externalId]);
    },
  );

  it("is FAILED when it was made too small and is deleted again, and its claim and what comes with that end with it", async () => {
    await make();
    await world.makeVolume("logs");
    const { createVolume } = world.backend;
    world.backend.createVolume = async (...call) => {
      const made = await createVolume(...call);
      return made.kind === "done" ? { ...made, value: { ...made.value, unfit: "it was made too small" } } : made;
    };
    world.backend.script("delete", { kind: "lost" });
    await world.claim("web", "n1", ["data", "logs"]);
    await world.idle();
    const { externalId, ...leaving } = await world.volume("data");
    expect(leaving).toMatchObject({ state: "DELETING", goal: "present" });
    await expect(world.claim("db", "n1", ["data"])).rejects.toMatchObject({ reason: "VOLUME_NOT_AVAILABLE" });
    await world.pass(60_000);
    const failure = { reason: "PLUGIN_REFUSED", message: "it was made too small" };
    expect(await world.volume("data")).toMatchObject({ state: "FAILED", externalId: "", claims: {}, failure });
    const why = await failureOf("web");
    expect(why.map((one) => one?.reason).toSorted()).toEqual(["SET_MEMBER_FAILED", "VOLUME_NOT_AVAILABLE"]);
    // An attempt of the delete had no answer, and may still arrive.
    expect(await world.store.get(deleteMarkRef({ plugin, externalId }))).toBeDefined();
    await remove();
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });

  it("[I5] leaves nothing when it is deleted while what an attempt may have made is still looked for", async () => {
    await make();
    world.backend.script("create", { kind: "lost" }, noRoom, noRoom);
    await world.claim("web", "n1", ["data"]);
    await world.pass(1_000, 700);
    expect(await world.states("web")).toEqual(["FAILED"]);
    world.backend.script("delete", { kind: "dropped" }, { kind: "dropped" });
    await remove();
    await world.pass(240_000, 5_000);
    expect(world.backend.volumes()).toEqual([]);
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });

  it("without a topology there is no other place: it is asked for again", async () => {
    for (const node of ["n1", "n2", "n3"]) {
      const half = world.nodes.get(node)?.record.plugins[0];
      if (half !== undefined) world.nodes.set(node, { plugins: [{ ...half, topology: {} }] });
    }
    await make();
    world.backend.script("create", noRoom);
    await world.claim("web", "n1", ["data"]);
    await world.pass(60_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("goes without a call as long as nobody claimed it, and not while somebody waits for it", async () => {
    await make();
    world.nodes.set("n1", {}, "suspect");
    await world.claim("web", "n1", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await expect(remove()).rejects.toMatchObject({ reason: "VOLUME_IN_USE" });
    await world.release("web");
    expect(await remove()).toBeUndefined();
    await world.pass(60_000);
    expect(world.backend.calls).toEqual([]);
  });

  it("is the same request again only with the same binding", async () => {
    await make();
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const again = await world.commands.createVolume(volumeInput("data", { lateBinding: true }), caller);
    expect(again.volume.state).toBe("AVAILABLE");
    await expect(world.commands.createVolume(volumeInput("data"), caller)).rejects.toMatchObject({
      reason: "VOLUME_EXISTS",
      metadata: { field: "binding" },
    });
  });
});
