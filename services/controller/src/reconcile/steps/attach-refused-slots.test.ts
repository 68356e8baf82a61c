/** RESOURCE_EXHAUSTED of ControllerPublishVolume: what it teaches of the node, for how long, and whom it holds up. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { capability, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import type { NodePlugin } from "../../domain/node/node.ts";

let world: World;

const limitTo = (at: World, node: string, maxVolumes: number, change: Partial<NodePlugin> = {}): void => {
  const view = at.nodes.get(node);
  if (view === undefined) throw new Error(`no node ${node}`);
  at.nodes.set(node, { plugins: view.record.plugins.map((half) => ({ ...half, maxVolumes, ...change })) });
};

const attachedTo = (at: World, node: string): readonly string[] =>
  at.backend.attachments().filter((pair) => pair.endsWith(`@${node}`));
const waitsFor = async (workload: string): Promise<readonly string[]> => {
  const views = await world.commands.selectClaims({ namespace: "default", workload, aliases: [], claimUids: [] });
  return views.map((view) => (view.kind === "living" ? view.waitingFor : ""));
};
const active = async (...workloads: readonly string[]): Promise<void> => {
  for (const workload of workloads) expect(new Set(await world.states(workload))).toEqual(new Set(["ACTIVE"]));
};

beforeEach(async () => {
  world = await createWorld({ nodes: ["n1", "n2", "n3"] });
  for (const id of ["a", "b", "c"]) await world.makeVolume(id);
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

describe("a plugin that takes no more", () => {
  const full = { kind: "unknown", advice: "again", code: "RESOURCE_EXHAUSTED", nodeFull: true } as const;

  it("C45, O37, W30: nothing more is granted there, and the refused one goes on when a slot is freed", async () => {
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    world.backend.script("publish", full);
    await world.claim("w2", "n1", ["b"]);
    await world.idle();
    expect(await world.states("w2")).toEqual(["ATTACHING"]);
    expect((await waitsFor("w2"))[0]).toContain("asked again when one is detached there");
    await expect(world.claim("w3", "n1", ["c"])).rejects.toMatchObject({
      reason: "ATTACH_LIMIT",
      metadata: { limit: "1" },
      message: expect.stringContaining("as the plugin refused one more"),
    });
    const before = world.backend.calls.length;
    await world.release("w1");
    await world.idle();
    await active("w2");
    expect(world.backend.calls.slice(before).map((call) => call.split(" ")[0])).toEqual(["unpublish", "publish"]);
  });

  it("holds up no other node of its volume: who claims it there, and who leaves it, need not wait", async () => {
    await world.makeVolume("shared", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
    await world.claim("w1", "n2", ["shared"]);
    await world.idle();
    world.backend.script("publish", full);
    await world.claim("refused", "n1", ["shared"]);
    await world.idle();
    expect(await world.states("refused")).toEqual(["ATTACHING"]);
    const before = world.backend.calls.length;
    await world.release("w1");
    await world.idle();
    expect(await world.states("w1")).toEqual(["RELEASED"]);
    await world.claim("w3", "n3", ["shared"]);
    await world.idle();
    await active("w3");
    // No time has passed: nobody waited for the next try.
    const calls = world.backend.calls.slice(before).map((call) => call.split(" ")[0]);
    expect(calls).toEqual(["unpublish", "publish"]);
    expect((await waitsFor("refused"))[0]).toContain("asked again when one is detached there");
    await world.pass(120_000, 5_000);
    await active("refused", "w3");
  });

  it.each(["released", "dies"])(
    "[I5] it may have attached it all the same: when it is %s, that is undone",
    async (how) => {
      world.backend.script("publish", { kind: "lost" }, full);
      await world.claim("w1", "n1", ["a"]);
      await world.pass(2_000);
      expect(attachedTo(world, "n1")).toHaveLength(1);
      world.backend.script("publish", full, full, full);
      if (how === "dies") await world.restart();
      await world.release("w1");
      await world.pass(5_000);
      expect(await world.states("w1")).toEqual(["RELEASED"]);
      expect(attachedTo(world, "n1")).toEqual([]);
      expect(world.backend.calls.filter((call) => call.startsWith("unpublish"))).toHaveLength(1);
    },
  );

  it("does not speak for another machine that has the node's name since, nor for another name of it at the plugin", async () => {
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    world.backend.script("publish", full);
    await world.claim("w2", "n1", ["b"]);
    await world.idle();
    expect(world.attachLimit(plugin, "n1")).toEqual({ limit: 1, learned: true });
    await world.release("w2");
    await world.idle();
    const known = world.nodes.get("n1")?.record;
    if (known === undefined) throw new Error("n1 is there");
    // The instance is of the same name: it was started from the same unit.
    world.nodes.set("n1", { machineId: "another" });
    expect(world.attachLimit(plugin, "n1").learned).toBe(false);
    world.nodes.set("n1", { machineId: known.machineId });
    expect(world.attachLimit(plugin, "n1")).toEqual({ limit: 1, learned: true });
    limitTo(world, "n1", 0, { nodeId: "i-other" });
    expect(world.attachLimit(plugin, "n1").learned).toBe(false);
    // What stands for the machine before is no proof of what this one takes.
    world.backend.script("publish", full, full, full);
    await world.claim("w3", "n1", ["c"]);
    await world.idle();
    expect(world.attachLimit(plugin, "n1")).toEqual({ limit: 0, learned: true });
  });

  it("does not speak for another plugin on the node", async () => {
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    const other = "csi.other";
    const view = world.nodes.get("n1");
    world.nodes.set("n1", {
      plugins: (view?.record.plugins ?? []).flatMap((half) => [half, { ...half, name: other }]),
    });
    world.backend.script("publish", full);
    await world.claim("w2", "n1", ["b"]);
    await world.idle();
    expect(world.attachLimit(plugin, "n1")).toEqual({ limit: 1, learned: true });
    expect(world.attachLimit(other, "n1").learned).toBe(false);
    await world.learned.load();
    expect(world.attachLimit(other, "n1").learned).toBe(false);
  });

  it("is believed for a while, by every controller, and asked anew once it is another instance", async () => {
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    world.backend.script("publish", full, full, full, full, full);
    await world.claim("w2", "n1", ["b"]);
    await world.idle();
    await world.restart();
    await world.learned.load();
    await expect(world.claim("w3", "n1", ["c"])).rejects.toMatchObject({ reason: "ATTACH_LIMIT" });
    limitTo(world, "n1", 0, { instance: "restarted" });
    await world.claim("w3", "n1", ["c"]);
    expect(await world.states("w3")).toEqual(["ATTACHING"]);
  });

  it("that takes it at the next try was wrong: the limit is forgotten", async () => {
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    world.backend.script("publish", full);
    await world.claim("w2", "n1", ["b"]);
    await world.pass(3_000);
    await active("w1", "w2");
    await world.claim("w3", "n1", ["c"]);
    await world.idle();
    await active("w3");
  });

  it("is asked again when its word has grown old", async () => {
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    world.backend.script("publish", full);
    await world.claim("w2", "n1", ["b"]);
    await world.idle();
    await world.release("w2");
    await world.idle();
    await expect(world.claim("w3", "n1", ["c"])).rejects.toMatchObject({ reason: "ATTACH_LIMIT" });
    await world.pass(11 * 60_000, 60_000);
    await world.claim("w3", "n1", ["c"]);
    await world.idle();
    await active("w1", "w3");
  });
});
