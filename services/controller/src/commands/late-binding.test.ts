import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, createWorld, plugin, volumeInput, type World } from "../../../../test/support/controller/world.ts";
import type { CreateVolumeInput } from "./model.ts";

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
