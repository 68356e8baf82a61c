import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../test/support/controller/world.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const clean = async () => {
  expect(world.backend.attachments()).toEqual([]);
  expect(world.agents.mounts()).toEqual([]);
  expect(world.reconciler.size()).toBe(0);
};

describe("the life of a volume and its claim", () => {
  it("[I4] creates, claims, mounts, releases and detaches with three commits each way and no read between", async () => {
    const volume = await world.makeVolume("data");
    expect(volume.state).toBe("AVAILABLE");
    expect(volume.externalId).toBe(`ext-${volume.name}`);

    const before = { commits: world.store.commits(), reads: world.store.reads() };
    const [view] = await world.claim("web", "n1", ["data"]);
    expect(view?.claim.state).toBe("ATTACHING");
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.store.commits() - before.commits).toBe(3);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    expect(world.backend.attachments()).toEqual([`${volume.externalId}@n1`]);

    const active = { commits: world.store.commits() };
    await world.release("web");
    await world.idle();
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(world.store.commits() - active.commits).toBe(3);
    expect(world.store.reads() - before.reads).toBe(0);
    expect((await world.volume("data")).claims).toEqual({});
    await clean();
  });
});
