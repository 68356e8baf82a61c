import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { capability, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import type { CapacityQuery } from "../../domain/plugin/backend-capacity.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});

afterEach(async () => {
  await world.close();
});

const ask = (change: Partial<CapacityQuery> = {}) =>
  world.commands.getCapacity({ plugin, capabilities: [capability()], parameters: {}, ...change });

const calls = () => world.backend.calls.filter((call) => call.startsWith("capacity")).length;

describe("GetCapacity", () => {
  it("answers what the plugin says, once for equal questions, and anew after a moment", async () => {
    const expected = { available: 1_000_000, maximumVolume: 500_000, minimumVolume: 1 };
    const answers = await Promise.all([ask(), ask(), ask({ parameters: {} })]);
    expect(answers).toEqual([expected, expected, expected]);
    expect(await ask()).toEqual(expected);
    expect(calls()).toBe(1);
    await world.clock.advance(2_001);
    await ask();
    expect(calls()).toBe(2);
  });

  it("is asked anew after a moment, also when the wall clock was set back by a day", async () => {
    await ask();
    world.clock.setWall(world.clock.now() - 86_400_000);
    await world.clock.advance(2_001);
    await ask();
    expect(calls()).toBe(2);
  });

  it("is asked anew for another place, other parameters or other capabilities", async () => {
    await ask({ parameters: { a: "1", b: "2" } });
    await ask({ parameters: { b: "2", a: "1" } });
    await ask({ parameters: { a: "1", b: "3" } });
    await ask({ topology: { zone: "a" } });
    await ask({ capabilities: [] });
    expect(calls()).toBe(4);
  });

  it("remembers no failure, and tells them apart", async () => {
    world.backend.script(
      "capacity",
      { kind: "refused", advice: "fail", code: "UNIMPLEMENTED" },
      { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" },
      { kind: "dropped" },
    );
    await expect(ask()).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH", metadata: { field: "plugin" } });
    await expect(ask()).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH", metadata: { field: "parameters" } });
    await expect(ask()).rejects.toMatchObject({ reason: "PLUGIN_NOT_READY" });
    expect(await ask()).toMatchObject({ available: 1_000_000 });
    await expect(ask({ plugin: "csi.none" })).rejects.toMatchObject({ reason: "PLUGIN_NOT_FOUND" });
    world.backend.setFacts({ ready: false });
    await expect(ask()).rejects.toMatchObject({ reason: "PLUGIN_NOT_READY" });
    await expect(ask({ plugin: "", topology: {} })).rejects.toMatchObject({
      violations: [{ field: "plugin" }, { field: "topology.segments" }],
    });
  });
});
