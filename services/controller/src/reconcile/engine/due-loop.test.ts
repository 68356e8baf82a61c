import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const day = 24 * 3_600_000;

describe("a wall clock that is set back by a day", () => {
  it("[I6] delays no retry by a day", async () => {
    world.backend.script("publish", { kind: "dropped" }, { kind: "dropped" });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ATTACHING"]);
    world.clock.setWall(world.clock.now() - day);
    await world.pass(120_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("[I6] delays no retry after a restart either", async () => {
    const dropped = { kind: "dropped" } as const;
    world.agents.script("publish", dropped, dropped, dropped, dropped, dropped, dropped, dropped);
    await world.claim("web", "n1", ["data"]);
    await world.pass(5_000);
    expect(await world.states("web")).toEqual(["OFFERED"]);
    world.clock.setWall(world.clock.now() - day);
    await world.restart();
    expect(await world.states("web")).toEqual(["OFFERED"]);
    await world.pass(120_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("still lets what waits for a deadline wait for it", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await world.claim("late", "n2", ["data"], { queue: { enabled: true, deadlineMs: 60_000 } });
    world.clock.setWall(world.clock.now() - 30_000);
    await world.pass(45_000);
    expect(await world.states("late")).toEqual(["QUEUED"]);
    await world.pass(60_000);
    expect(await world.states("late")).toEqual(["FAILED"]);
  });
});
