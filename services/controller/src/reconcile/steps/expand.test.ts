import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const minute = 60_000;
const made = 1_000_000;
const shared = { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] };

const expand = async (required: number, limit = 0) => {
  const view = await world.commands.expandVolume(
    { namespace: "default", id: "data", capacity: { required, limit }, requestId: "" },
    caller,
  );
  return view.volume;
};

const expandCalls = () =>
  world.backend.calls.filter((c) => c.startsWith("expand ")).map((c) => c.split(" ").slice(2).join(" "));
const growCalls = () => world.agents.calls.filter((c) => c.startsWith("expand "));

const mounted = async (workload: string, node: string) => {
  await world.claim(workload, node, ["data"]);
  await world.idle();
  expect(await world.states(workload)).toEqual(["ACTIVE"]);
};

const released = async (workload: string) => {
  await world.release(workload);
  await world.idle();
};

describe("a volume that grows", () => {
  it("[O56] [C60] [W36] grows at the backend, then on every node that has it, and is asked for by one commit and two more", async () => {
    await world.makeVolume("data", shared);
    await mounted("one", "n1");
    await mounted("two", "n2");
    const before = world.store.commits();
    const asked = await expand(5_000_000);
    expect(asked.expansion).toMatchObject({ state: "CALLING", target: { required: 5_000_000, limit: 0 } });
    expect(asked.capacity.actual).toBe(made);
    await world.idle();
    const after = await world.volume("data");
    expect(after.capacity).toEqual({ required: 5_000_000, limit: 0, actual: 5_000_000 });
    expect(after.expansion).toBeUndefined();
    expect(after.growth).toBeUndefined();
    expect(world.agents.grown()).toEqual({ "default/data@n1": 5_000_000, "default/data@n2": 5_000_000 });
    expect(expandCalls()).toEqual(["5000000"]);
    expect(growCalls()).toHaveLength(2);
    expect(world.store.commits() - before).toBe(4);
  });

  it("asked for twice, or for what it has, is called once", async () => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    await expand(5_000_000);
    await expand(5_000_000);
    await expand(4_000_000);
    await world.idle();
    await expand(5_000_000);
    await expand(1);
    await world.idle();
    expect(expandCalls()).toEqual(["5000000"]);
    expect(growCalls()).toHaveLength(1);
    expect((await world.volume("data")).capacity.actual).toBe(5_000_000);
  });

  it("[W36] that nobody uses owes the growth to the next node that stages it, and only to that one", async () => {
    await world.makeVolume("data", shared);
    await expand(5_000_000);
    await world.idle();
    const idle = await world.volume("data");
    expect(idle.capacity.actual).toBe(5_000_000);
    expect(idle.growth).toMatchObject({ bytes: 5_000_000, done: [] });
    expect(growCalls()).toEqual([]);
    await world.restart();
    const before = world.store.commits();
    await mounted("one", "n1");
    expect(growCalls()).toEqual(["expand default/data 5000000 on n1"]);
    // The permit brings it along: no commit more than any claim needs.
    expect(world.store.commits() - before).toBe(3);
    expect((await world.volume("data")).growth).toBeUndefined();
    await mounted("two", "n2");
    expect(growCalls()).toHaveLength(1);
  });

  it("without nodes that have to follow is done when the backend has answered", async () => {
    world.backend.setNodesFollow(false);
    await world.makeVolume("data");
    await mounted("one", "n1");
    await expand(5_000_000);
    await world.idle();
    expect((await world.volume("data")).growth).toBeUndefined();
    expect(growCalls()).toEqual([]);
  });

  it.each(["lost", "dropped"] as const)(
    "[I4] whose answer is %s is called again with the same size until it is known",
    async (kind) => {
      await world.makeVolume("data");
      await mounted("one", "n1");
      world.backend.script("expand", { kind }, { kind });
      await expand(5_000_000);
      await world.idle();
      const between = await world.volume("data");
      expect(between.expansion).toMatchObject({ state: "UNCERTAIN", attempts: { count: 1 } });
      expect(between.capacity.actual).toBe(made);
      await world.pass(minute);
      expect((await world.volume("data")).capacity.actual).toBe(5_000_000);
      expect(world.backend.calls.filter((c) => c.startsWith("expand "))).toHaveLength(3);
      expect((await world.volume("data")).expansion).toBeUndefined();
    },
  );

  it.each(["lost", "dropped"] as const)("on a node whose answer is %s is asked again there", async (kind) => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    world.agents.script("expand", { kind }, { kind });
    await expand(5_000_000);
    await world.idle();
    expect((await world.volume("data")).growth).toMatchObject({ done: [], nodes: { n1: { attempts: { count: 1 } } } });
    await world.pass(minute);
    expect((await world.volume("data")).growth).toBeUndefined();
    expect(growCalls()).toHaveLength(3);
    expect(world.agents.grown()["default/data@n1"]).toBe(5_000_000);
  });

  it("[W36] keeps its new size although one node fails, which is told beside it; the other node is not asked again", async () => {
    await world.makeVolume("data", shared);
    await mounted("one", "n1");
    await mounted("two", "n2");
    world.agents.script("expand", { kind: "code", code: "OUT_OF_RANGE" });
    await expand(5_000_000);
    await world.idle();
    const volume = await world.volume("data");
    expect(volume.capacity.actual).toBe(5_000_000);
    expect(volume.growth?.done).toHaveLength(1);
    const [failed] = Object.entries(volume.growth?.nodes ?? {});
    expect(failed?.[1].blocked).toMatchObject({ reason: "PLUGIN_REFUSED" });
    await world.pass(3 * minute);
    expect((await world.volume("data")).growth).toBeUndefined();
    expect(growCalls()).toHaveLength(3);
  });
});

describe("[C61] [O58] FAILED_PRECONDITION of NodeExpandVolume", () => {
  it("is not answered with the same call while the volume is published, and the next stage does it", async () => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    world.agents.script("expand", { kind: "code", code: "FAILED_PRECONDITION" });
    await expand(5_000_000);
    await world.pass(10 * minute);
    expect(growCalls()).toHaveLength(1);
    const held = await world.volume("data");
    expect(held.growth?.nodes["n1"]?.blocked).toMatchObject({ reason: "EXPAND_IN_USE" });
    const { findings } = await world.commands.explainVolume({ namespace: "default", id: "data" });
    expect(findings.join("\n")).toContain("NodeExpandVolume on node n1");
    await released("one");
    await mounted("next", "n1");
    expect(growCalls()).toHaveLength(2);
    expect((await world.volume("data")).growth).toBeUndefined();
    expect(world.agents.grown()["default/data@n1"]).toBe(5_000_000);
  });

  it("of the last node that owes it ends with that node's release, once another has done it", async () => {
    await world.makeVolume("data", shared);
    await mounted("one", "n1");
    await mounted("two", "n2");
    world.agents.script("expand", { kind: "code", code: "FAILED_PRECONDITION" });
    await expand(5_000_000);
    await world.idle();
    const { growth } = await world.volume("data");
    const [owing] = Object.keys(growth?.nodes ?? {});
    await released(owing === "n1" ? "one" : "two");
    expect((await world.volume("data")).growth).toBeUndefined();
    expect(world.reconciler.size()).toBe(0);
  });
});

describe("[C59] [O55] a plugin that expands only what is not in use", () => {
  beforeEach(() => world.backend.setFacts({ expandsOnline: "no", expandsOffline: "yes" }));

  it("is asked once the last node has let go, before who waits; the next node grows it", async () => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    const asked = await expand(5_000_000);
    expect(asked.expansion).toMatchObject({ state: "WANTED", onlyUnused: true, blocked: { reason: "EXPAND_IN_USE" } });
    expect(asked.expansion?.blocked?.message).toContain("n1");
    await world.claim("next", "n2", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.pass(2 * minute);
    expect(expandCalls()).toEqual([]);
    const { nextActions } = await world.commands.explainVolume({ namespace: "default", id: "data" });
    expect(nextActions.join("\n")).toContain("holdfast claim release one");
    world.backend.script("expand", { kind: "lost" });
    await released("one");
    expect(await world.states("next")).toEqual(["QUEUED"]);
    await world.pass(minute);
    expect(expandCalls().at(-1)).toBe("5000000");
    expect(await world.states("next")).toEqual(["ACTIVE"]);
    expect((await world.volume("data")).growth).toBeUndefined();
    expect(world.agents.grown()).toEqual({ "default/data@n2": 5_000_000 });
  });

  it("is asked at once for a volume that no node has", async () => {
    await world.makeVolume("data");
    await expand(5_000_000);
    await world.idle();
    expect((await world.volume("data")).capacity.actual).toBe(5_000_000);
  });

  it("is known only by its answer when it does not announce it: FAILED_PRECONDITION waits for the volume to be unused", async () => {
    world.backend.setFacts({ expandsOnline: "no", expandsOffline: "no", assumedExpansion: "online" });
    await world.makeVolume("data");
    await mounted("one", "n1");
    world.backend.script("expand", { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" });
    await expand(5_000_000);
    await world.pass(10 * minute);
    expect(world.backend.calls.filter((c) => c.startsWith("expand "))).toHaveLength(1);
    expect((await world.volume("data")).expansion).toMatchObject({ state: "WANTED", onlyUnused: true });
    await released("one");
    await world.idle();
    await world.pass(3 * minute);
    expect((await world.volume("data")).capacity.actual).toBe(5_000_000);
  });

  it("D5 names the setting by which it is asked in use, where the plugin names no kind of expansion and only there", async () => {
    for (const [expandsOffline, names] of [
      ["no", true],
      ["yes", false],
    ] as const) {
      world.backend.setFacts({ expandsOnline: "no", expandsOffline });
      const id = `kind-${expandsOffline}`;
      await world.makeVolume(id);
      await world.claim(id, "n1", [id]);
      await world.idle();
      const range = { required: 5_000_000, limit: 0 };
      await world.commands.expandVolume({ namespace: "default", id, capacity: range, requestId: "" }, caller);
      const { blocked } = (await world.volume(id)).expansion ?? {};
      expect(blocked?.reason).toBe("EXPAND_IN_USE");
      expect(blocked?.message.includes("assumed_expansion: online")).toBe(names);
    }
  });

  it("is asked in use after all when its profile says so by now and somebody asks again", async () => {
    world.backend.setFacts({ expandsOnline: "no", expandsOffline: "no" });
    await world.makeVolume("data");
    await mounted("one", "n1");
    await expand(5_000_000);
    await world.idle();
    // The fake backend takes it in use only if it says so.
    world.backend.setFacts({ expandsOnline: "yes", assumedExpansion: "online" });
    expect((await expand(5_000_000)).expansion?.state).toBe("CALLING");
    await world.idle();
    expect((await world.volume("data")).capacity.actual).toBe(5_000_000);
    expect((await world.volume("data")).growth).toBeUndefined();
  });

  it("is spared a volume in use when nothing is known of it", async () => {
    world.backend.setFacts({ expandsOnline: "no", expandsOffline: "no" });
    await world.makeVolume("data");
    await mounted("one", "n1");
    expect((await expand(5_000_000)).expansion).toMatchObject({ onlyUnused: true });
  });
});

describe("a size that cannot be had", () => {
  it("[W36] leaves the volume as it was, with the reason, and another may be asked for", async () => {
    await world.makeVolume("data");
    world.backend.script("expand", { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
    await expand(500_000_000);
    await world.idle();
    const volume = await world.volume("data");
    expect(volume.capacity).toEqual({ required: made, limit: 0, actual: made });
    expect(volume.expansion).toMatchObject({ state: "REFUSED", failure: { reason: "OUT_OF_RANGE" } });
    expect(volume.intent).toBeUndefined();
    await expand(2_000_000);
    await world.idle();
    expect((await world.volume("data")).capacity.actual).toBe(2_000_000);
    expect((await world.volume("data")).expansion).toBeUndefined();
  });

  it("after an answer that was lost is blocked, not taken back: the backend may be bigger", async () => {
    await world.makeVolume("data");
    world.backend.script("expand", { kind: "lost" }, { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
    await expand(5_000_000);
    await world.pass(5_000);
    const stuck = await world.volume("data");
    expect(stuck.expansion).toMatchObject({ state: "UNCERTAIN", blocked: { reason: "EXPAND_UNCERTAIN" } });
    await world.pass(5 * minute);
    expect((await world.volume("data")).capacity.actual).toBe(5_000_000);
  });

  it.each([
    [made, "REFUSED", made],
    [5_000_000, undefined, 5_000_000],
  ] as const)("is settled by what the backend tells (%d bytes)", async (tells, state, size) => {
    await world.makeVolume("data");
    world.backend.setLook(() => ({ capacity: tells }));
    world.backend.script("expand", { kind: "dropped" }, { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
    await expand(5_000_000);
    await world.pass(5_000);
    const volume = await world.volume("data");
    expect(volume.expansion?.state).toBe(state);
    expect(volume.capacity.actual).toBe(size);
  });

  it("that was a mistake is taken back by a lower limit, also after answers that were lost", async () => {
    await world.makeVolume("data");
    world.backend.script(
      "expand",
      ...Array.from({ length: 40 }, () => ({ kind: "unknown", advice: "again", code: "RESOURCE_EXHAUSTED" }) as const),
    );
    await expand(500_000_000_000);
    await world.pass(2 * minute);
    expect((await world.volume("data")).expansion?.state).toBe("UNCERTAIN");
    await expand(2_000_000, 3_000_000);
    world.backend.script("expand");
    expect((await world.volume("data")).expansion?.target).toEqual({ required: 2_000_000, limit: 0 });
    await world.pass(60 * minute, 10_000);
    expect((await world.volume("data")).capacity.actual).toBe(2_000_000);
  });

  it("by a limit below what it has is refused, and nothing is written", async () => {
    await world.makeVolume("data");
    const before = world.store.commits();
    await expect(expand(1, 999_999)).rejects.toMatchObject({ kind: "out_of_range", reason: "CAPACITY_LIMIT" });
    expect(world.store.commits()).toBe(before);
  });

  it("of a plugin that cannot expand is refused; one that has not told yet waits", async () => {
    await world.makeVolume("data");
    world.nodes.set("n1", { plugins: [] });
    world.backend.setFacts({ expandsVolumes: "unknown" });
    expect((await expand(5_000_000)).expansion?.state).toBe("WANTED");
    await world.idle();
    expect(expandCalls()).toEqual([]);
    world.backend.setFacts({ expandsVolumes: "yes" });
    await world.idle();
    expect((await world.volume("data")).capacity.actual).toBe(5_000_000);
  });
});

describe("wishes at the same time", () => {
  it("merge to the largest, one call after the other", async () => {
    await world.makeVolume("data");
    let answer = () => {};
    world.backend.script("expand", { kind: "held", until: new Promise((resolve) => (answer = resolve)) });
    await expand(2_000_000);
    await world.clock.advance(0);
    expect((await expand(3_000_000)).expansion).toMatchObject({
      target: { required: 2_000_000 },
      next: { required: 3_000_000 },
    });
    await expand(4_000_000);
    await expand(2_500_000);
    answer();
    await world.idle();
    expect(expandCalls()).toEqual(["2000000", "4000000"]);
    expect((await world.volume("data")).capacity).toMatchObject({ required: 4_000_000, actual: 4_000_000 });
  });

  it("that forbid each other are told so", async () => {
    await world.makeVolume("data");
    world.backend.script("expand", { kind: "unknown", advice: "again", code: "UNAVAILABLE" });
    await expand(2_000_000, 3_000_000);
    await world.idle();
    await expect(expand(4_000_000)).rejects.toMatchObject({ reason: "VOLUME_BUSY" });
  });

  it("[W36] beside claims: attach and expand never call at once, and both get there", async () => {
    await world.makeVolume("data", shared);
    await Promise.all([
      world.claim("one", "n1", ["data"], { queue: { enabled: true, deadlineMs: undefined } }),
      expand(5_000_000),
      world.claim("two", "n2", ["data"], { queue: { enabled: true, deadlineMs: undefined } }),
    ]);
    await world.idle();
    await world.pass(minute);
    expect(await world.states("one")).toEqual(["ACTIVE"]);
    expect(await world.states("two")).toEqual(["ACTIVE"]);
    expect((await world.volume("data")).growth).toBeUndefined();
    expect(Object.keys(world.agents.grown()).length).toBeGreaterThan(0);
  });

  it("beside a release: what the node owes goes with it, and stays owed to the next", async () => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    world.agents.script("expand", { kind: "dropped" });
    await expand(5_000_000);
    await world.idle();
    await released("one");
    expect(await world.states("one")).toEqual(["RELEASED"]);
    expect((await world.volume("data")).growth).toMatchObject({ done: [] });
    await mounted("two", "n2");
    expect((await world.volume("data")).growth).toBeUndefined();
  });

  it("an expansion that may be open at the plugin lets no other call of the volume leave beside it", async () => {
    await world.makeVolume("data");
    world.backend.script("expand", ...Array.from({ length: 4 }, () => ({ kind: "dropped" }) as const));
    await expand(5_000_000);
    await world.idle();
    await world.claim("one", "n1", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.pass(1_000);
    expect(world.backend.calls.some((call) => call.startsWith("publish"))).toBe(false);
    await world.pass(2 * minute, 5_000);
    expect(await world.states("one")).toEqual(["ACTIVE"]);
  });

  it("an expansion that was answered without a certain outcome stops neither an attach nor a deletion", async () => {
    const unclear = { kind: "unknown", advice: "again", code: "INTERNAL" } as const;
    await world.makeVolume("data");
    world.backend.script("expand", unclear);
    await expand(5_000_000);
    await world.idle();
    await mounted("one", "n1");
    await released("one");
    world.backend.script("expand", unclear, unclear, unclear);
    await expand(6_000_000);
    await world.idle();
    await world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
    await world.pass(minute);
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    expect(world.backend.volumes()).toEqual([]);
  });
});

describe("a plugin that expands on nodes alone", () => {
  beforeEach(() => {
    world.backend.setFacts({ expandsVolumes: "no" });
    const [record] = world.nodes.list();
    const plugins = (record?.record.plugins ?? []).map((p) => ({
      ...p,
      capabilities: { "node:EXPAND_VOLUME": "yes" as const },
    }));
    for (const node of ["n1", "n2", "n3"])
      world.nodes.set(node, { plugins: plugins.map((p) => ({ ...p, nodeId: node })) });
  });

  it("grows where it is published, and the size follows the node's answer", async () => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    await expand(5_000_000);
    await world.idle();
    expect(expandCalls()).toEqual([]);
    expect((await world.volume("data")).capacity.actual).toBe(5_000_000);
    expect((await world.volume("data")).growth).toBeUndefined();
  });

  it("refuses a size for good: the volume is as it was", async () => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    world.agents.script("expand", { kind: "code", code: "OUT_OF_RANGE" });
    await expand(5_000_000);
    await world.idle();
    const volume = await world.volume("data");
    expect(volume.capacity.actual).toBe(made);
    expect(volume.growth).toBeUndefined();
    expect(volume.expansion).toMatchObject({ state: "REFUSED" });
  });

  it.each([5_000_000, 4_000_000, 6_000_000])(
    "E3 once more, to %d, after an answer that was lost: what may have happened is not forgotten for it",
    async (again) => {
      await world.makeVolume("data");
      await mounted("one", "n1");
      const since = async () => (await world.volume("data")).growth?.nodes["n1"]?.uncertainSince;
      world.agents.script("expand", { kind: "lost" });
      await expand(5_000_000);
      await world.idle();
      const doubted = await since();
      expect(doubted).toBeDefined();
      world.agents.script("expand", { kind: "code", code: "OUT_OF_RANGE" });
      await expand(again);
      await world.pass(2_000);
      expect(await since()).toBe(doubted);
      expect((await world.volume("data")).expansion, "the node may have grown it").toBeUndefined();
      await world.pass(5 * minute);
      expect((await world.volume("data")).capacity.actual).toBe(Math.max(5_000_000, again));
    },
  );

  it("waits for the next stage of a volume that nobody has", async () => {
    await world.makeVolume("data");
    await expand(5_000_000);
    await world.idle();
    expect((await world.volume("data")).capacity.actual).toBe(made);
    await mounted("one", "n1");
    expect((await world.volume("data")).capacity.actual).toBe(5_000_000);
  });
});
