import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

describe("a set of which one member fails", () => {
  it("[I6] lets the others go, also when it joined an attach that somebody else had begun", async () => {
    await world.makeVolume("shared", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
    await world.makeVolume("own");
    let answer: () => void = () => undefined;
    const until = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const { publish } = world.backend;
    world.backend.publish = async () => {
      world.backend.publish = publish;
      await until;
      return {
        kind: "refused",
        failure: { reason: "PLUGIN_REFUSED", message: "no such node", advice: "fail", call: "ended" },
      };
    };
    await world.claim("first", "n1", ["shared"]);
    await world.clock.advance(0);
    await world.claim("set", "n1", ["shared", "own"]);
    await world.clock.advance(0);
    answer();
    await world.pass(60_000);
    expect(await world.states("first")).toEqual(["FAILED"]);
    expect(await world.states("set")).toEqual(["FAILED", "FAILED"]);
    expect(world.backend.attachments()).toEqual([]);
    expect(world.agents.mounts()).toEqual([]);
  });
});
