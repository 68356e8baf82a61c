/** Volumes that are made for the node of their first claim: where that may be, and where their plugin says there is no room. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, createWorld, plugin, volumeInput, type World } from "../../../../../test/support/controller/world.ts";
import type { CreateVolumeInput } from "../model.ts";

let world: World;

const inZone = (node: string, zone: string | undefined): void => {
  const half = world.nodes.get(node)?.record.plugins[0];
  const topology = zone === undefined ? {} : { zone };
  if (half !== undefined) world.nodes.set(node, { plugins: [{ ...half, topology }] });
};

beforeEach(async () => {
  world = await createWorld({ nodes: ["n1", "n2", "n3"] });
  for (const node of ["n1", "n2", "n3"]) inZone(node, node === "n3" ? "b" : "a");
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const make = (change: Partial<CreateVolumeInput> = {}) =>
  world.commands.createVolume(volumeInput("data", { lateBinding: true, ...change }), caller);

const asked = () => world.backend.calls.filter((call) => call.startsWith("capacity"));

/** By node: what speaks against it. */
const check = async (...volumes: readonly string[]) => {
  const claims = volumes.map((volume) => ({ volume, alias: "", capability: undefined, readOnly: false }));
  const input = { namespace: "default", workload: "web", claims, nodes: [], after: [], feasibleOnly: false };
  const { items } = await world.placement().checkPlacement(input, { size: 500, after: undefined });
  return Object.fromEntries(items.map(({ node, reasons }) => [node, reasons]));
};

describe("CheckPlacement of a volume that is yet to be made", () => {
  it("finds the nodes for which it may be made, as CreateClaims then does", async () => {
    world.backend.setRoom(() => ({ available: 1e12, maximumVolume: 0, minimumVolume: 0 }));
    await make({ topology: { required: [{ zone: "a" }], preferred: [] } });
    const found = await check("data");
    expect([found["n1"], found["n2"]]).toEqual([[], []]);
    expect(found["n3"]).toMatchObject([{ obstacle: "TOPOLOGY_MISMATCH" }]);
    await world.claim("web", "n2", ["data"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("C70 names a place without room, asked once for each, and the claim goes where there is some", async () => {
    const room = new Map([
      ["a", { available: 999_999, maximumVolume: 0, minimumVolume: 0 }],
      ["b", { available: 1_000_000, maximumVolume: 0, minimumVolume: 0 }],
    ]);
    world.backend.setRoom(
      (topology) => room.get(topology?.["zone"] ?? "") ?? { available: 0, maximumVolume: 0, minimumVolume: 0 },
    );
    await make();
    const found = await check("data");
    expect(found["n1"]).toMatchObject([
      {
        obstacle: "CAPACITY",
        message: `plugin ${plugin} has 999999 bytes left there, and volume default/data, which is yet to be made, needs 1000000`,
      },
    ]);
    expect(found["n2"]).toHaveLength(1);
    expect(found["n3"]).toEqual([]);
    expect(asked()).toHaveLength(2);
    room.set("b", { available: 5_000_000, maximumVolume: 500_000, minimumVolume: 0 });
    await world.clock.advance(3_000);
    expect((await check("data"))["n3"]?.[0]?.message).toContain("makes none there of more than 500000");
    await world.claim("web", "n3", ["data"]);
    await world.idle();
    // What is there needs no room any more.
    world.backend.setRoom(() => ({ available: 0, maximumVolume: 0, minimumVolume: 0 }));
    await world.release("web");
    await world.idle();
    const before = asked().length;
    expect(Object.values(await check("data")).flat()).toEqual([]);
    expect(asked()).toHaveLength(before);
  });

  it("takes nothing for full that does not say, or not in time", async () => {
    await make();
    world.backend.script(
      "capacity",
      ...Array.from({ length: 2 }, () => ({ kind: "refused", advice: "fail", code: "UNIMPLEMENTED" }) as const),
    );
    expect(Object.values(await check("data")).flat()).toEqual([]);
    world.backend.setRoom(() => ({ available: 0, maximumVolume: 0, minimumVolume: 0 }));
    let answer: () => void = () => undefined;
    const until = new Promise<void>((resolve) => (answer = resolve));
    world.backend.script("capacity", { kind: "held", until }, { kind: "held", until });
    const late = check("data");
    for (let n = 0; n < 20; n += 1) await world.clock.advance(100);
    expect(Object.values(await late).flat()).toEqual([]);
    answer();
  });
});
