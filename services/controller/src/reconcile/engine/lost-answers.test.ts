import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, createWorld, volumeInput, type World } from "../../../../../test/support/controller/world.ts";
import { reconcileFailpoints } from "../failpoints.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const minute = 60_000;
const data = { namespace: "default", id: "data", requestId: "" };

const expectNothingLeft = async (volumes: number): Promise<void> => {
  expect(world.backend.attachments()).toEqual([]);
  expect(world.agents.mounts()).toEqual([]);
  expect(world.backend.volumes()).toHaveLength(volumes);
};

/** A whole life: made, claimed, used, released, deleted; with time for retries after each wish. */
const wholeLife = async (): Promise<void> => {
  await world.makeVolume("data");
  await world.pass(2 * minute);
  expect((await world.volume("data")).state).toBe("AVAILABLE");
  await world.claim("web", "n1", ["data"]);
  await world.pass(2 * minute);
  expect(await world.states("web")).toEqual(["ACTIVE"]);
  expect(world.agents.mounts()).toEqual(["default/data@n1"]);
  await world.release("web");
  await world.pass(2 * minute);
  expect(await world.states("web")).toEqual(["RELEASED"]);
  await expectNothingLeft(1);
  await world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
  await world.pass(2 * minute);
  await expectNothingLeft(0);
  await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
};

describe("an answer that is lost", () => {
  it.each(["create", "publish", "unpublish", "delete"] as const)(
    "[I6] of the plugin's %s is asked for again",
    async (method) => {
      world.backend.script(method, { kind: "lost" }, { kind: "dropped" }, { kind: "lost" });
      await wholeLife();
      expect(world.backend.calls.filter((c) => c.startsWith(`${method} `))).toHaveLength(4);
    },
  );

  it.each(["publish", "release"] as const)("[I6] of the agent's %s is asked for again", async (method) => {
    world.agents.script(method, { kind: "lost" }, { kind: "dropped" }, { kind: "lost" });
    await wholeLife();
    expect(world.agents.calls.filter((c) => c.startsWith(`${method} `))).toHaveLength(4);
  });

  it.each(["before", "after"] as const)("[I4] of a commit, %s it was stored, is settled by reading", async (when) => {
    world.store.loseCommits(when);
    await world.makeVolume("data");
    for (const wish of ["claim", "release"] as const) {
      world.store.loseCommits(when, when, when);
      const asked = wish === "claim" ? world.claim("web", "n1", ["data"]) : world.release("web");
      await world.pass(minute, 100);
      await asked;
      expect(await world.states("web")).toEqual([wish === "claim" ? "ACTIVE" : "RELEASED"]);
    }
    await expectNothingLeft(1);
    expect(world.backend.calls.filter((c) => c.startsWith("publish "))).toHaveLength(1);
  });
});

describe("a controller that dies", () => {
  it.each(reconcileFailpoints)("[I4] at %s leaves nothing behind and nothing stuck", async (point) => {
    world.killAt(point);
    const steps: readonly (() => Promise<unknown>)[] = [
      () => world.commands.createVolume(volumeInput("data"), caller),
      () => world.claim("web", "n1", ["data"]),
      () => world.commands.expandVolume({ ...data, capacity: { required: 2_000_000, limit: 0 } }, caller),
      () => world.commands.modifyVolume({ ...data, mutableParameters: { tier: "gold" } }, caller),
      () => world.release("web"),
      () => world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller),
    ];
    let deaths = 0;
    for (const step of steps) {
      await step();
      await world.idle();
      if (!world.alive) {
        deaths += 1;
        await world.restart();
      }
      await world.pass(2 * minute);
    }
    expect(deaths).toBe(1);
    await expectNothingLeft(0);
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    expect(await world.states("web")).toEqual(["RELEASED"]);
  });
});
