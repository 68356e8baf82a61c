import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { barRecord } from "../../domain/testing/record-fixtures.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
  for (const id of ["data", "more"]) await world.makeVolume(id);
  await world.makeVolume("shared", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const drain = (change: Partial<Parameters<World["nodeCommands"]["drainNode"]>[0]> = {}) =>
  world.nodeCommands.drainNode(
    { name: "n1", reason: "new kernel", mode: "wait", deadlineMs: undefined, ...change },
    caller,
  );

/** Of a set of three: what has ended is not shown beside what lives. */
const allAlike = (states: readonly string[]): boolean => states.length === 3 && new Set(states).size === 1;

const queue = { queue: { enabled: true, deadlineMs: undefined } };

describe("a drain", () => {
  it("[X40] grants nothing more, leaves what is there, and says what each claim waits for", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const view = await drain();
    expect(view).toMatchObject({ stage: "CLAIMS", remainingCount: 1, queuedCount: 0 });
    expect(view.remaining[0]).toMatchObject({
      volume: "data",
      workload: "web",
      state: "ACTIVE",
      waitingFor: "workload web to be stopped and released",
    });
    await expect(world.claim("db", "n1", ["more"])).rejects.toMatchObject({
      reason: "NODE_NOT_READY",
      message: expect.stringContaining("drained: new kernel"),
      metadata: { node: "n1", state: "DRAINED" },
    });
    // What stands is answered as ever, and the other nodes know nothing of it.
    expect(await world.claim("web", "n1", ["data"])).toMatchObject([{ claim: { state: "ACTIVE" } }]);
    await world.claim("db", "n2", ["more"]);
    await world.idle();
    await world.pass(120_000, 10_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(await world.states("db")).toEqual(["ACTIVE"]);
    expect(world.agents.mounts()).toHaveLength(2);
  });

  it("[X51] ends when the scheduler has released, and only then says that plugins may go", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await drain();
    await world.claim("web-2", "n2", ["data"], queue);
    world.agents.script("release", { kind: "dropped" });
    await world.release("web");
    await world.idle();
    const releasing = await world.nodeCommands.drainView("n1");
    expect(releasing).toMatchObject({
      stage: "CLAIMS",
      remaining: [{ state: "RELEASING", lastError: { reason: "UNAVAILABLE" } }],
    });
    await world.pass(5_000);
    expect(await world.nodeCommands.drainView("n1")).toMatchObject({ stage: "PLUGINS", remaining: [] });
    expect(await world.states("web-2")).toEqual(["ACTIVE"]);
    world.nodes.set("n1", { plugins: [] });
    expect((await world.nodeCommands.drainView("n1")).stage).toBe("DONE");
  });

  it("keeps claims that wait for the node, and grants them once it is undrained", async () => {
    await drain();
    await world.claim("web", "n1", ["data"], queue);
    await world.pass(10_000);
    expect(await world.states("web")).toEqual(["QUEUED"]);
    const view = await world.nodeCommands.drainView("n1");
    expect(view).toMatchObject({ remainingCount: 0, queuedCount: 1, stage: "PLUGINS" });
    const [claim] = await world.commands.selectClaims({
      namespace: "default",
      workload: "web",
      aliases: [],
      claimUids: [],
    });
    expect(claim).toMatchObject({ waitingFor: "node n1 is drained: new kernel" });
    await world.nodeCommands.undrainNode({ name: "n1", reason: "" }, caller);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.nodes.get("n1")?.record.drain).toBeUndefined();
  });

  it("[W26] bears who, why and the server's own time", async () => {
    await drain();
    const at = world.clock.now();
    expect(world.nodes.get("n1")?.record).toMatchObject({
      drain: { since: at },
      changedBy: { who: caller.who, why: caller.why, at },
    });
  });

  it("the same again puts nothing off, and other words replace it", async () => {
    await drain({ deadlineMs: 60_000 });
    const first = world.nodes.get("n1")?.record;
    await world.clock.advance(10_000);
    await drain({ deadlineMs: 60_000 });
    expect(world.nodes.get("n1")?.record).toBe(first);
    await drain({ deadlineMs: 120_000 });
    expect(world.nodes.get("n1")?.record.drain).toEqual({
      ...first?.drain,
      deadline: world.clock.now() + 120_000,
      within: 120_000,
    });
    await expect(world.nodeCommands.undrainNode({ name: "n9", reason: "" }, caller)).rejects.toMatchObject({
      reason: "NODE_NOT_FOUND",
    });
    await world.nodeCommands.undrainNode({ name: "n1", reason: "" }, caller);
    const open = world.nodes.get("n1")?.record;
    await world.nodeCommands.undrainNode({ name: "n1", reason: "" }, caller);
    expect(world.nodes.get("n1")?.record).toBe(open);
  });

  it("[W10] [W11] of a node that died says so, and takes nothing from it", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await drain({ mode: "release", deadlineMs: 60_000 });
    world.agents.silence("n1", true);
    world.nodes.set("n1", {}, "suspect");
    await world.pass(600_000, 20_000);
    expect(world.agents.mounts()).toHaveLength(1);
    expect(world.backend.attachments()).toHaveLength(1);
    const view = await world.nodeCommands.drainView("n1");
    expect(view).toMatchObject({ stage: "CLAIMS", remaining: [{ state: "RELEASING", volume: "data" }] });
    // It comes back, and goes on where it was.
    world.agents.silence("n1", false);
    world.nodes.set("n1", {}, "alive");
    await world.pass(5_000);
    expect(await world.nodeCommands.drainView("n1")).toMatchObject({ stage: "PLUGINS" });
    expect(world.backend.attachments()).toEqual([]);
  });
});

describe("a drain that releases", () => {
  it("ends what waits for the node first, then releases what is there, and touches no other node", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.claim("cache", "n1", ["shared"]);
    await world.claim("other", "n2", ["shared"]);
    await world.claim("late", "n1", ["more"]);
    await world.idle();
    await world.claim("next", "n1", ["data"], queue);
    await drain({ mode: "release" });
    await world.drains.idle();
    // Nothing of the queue was granted when the holder went.
    expect(await world.states("next")).toEqual(["RELEASED"]);
    await world.idle();
    expect(await world.nodeCommands.drainView("n1")).toMatchObject({ stage: "PLUGINS", queuedCount: 0 });
    expect(await world.states("other")).toEqual(["ACTIVE"]);
    expect(world.agents.heldOn("n1")).toEqual([]);
    for (const workload of ["web", "cache", "late"]) expect(await world.states(workload)).toEqual(["RELEASED"]);
  });

  it("[X44] goes on after a restart of the controller, from what is stored alone", async () => {
    await world.claim("web", "n1", ["data", "more"]);
    await world.idle();
    world.kill();
    await drain({ mode: "release" });
    expect(world.agents.heldOn("n1")).toHaveLength(2);
    await world.restart();
    world.drains.run().catch(() => undefined);
    await world.drains.idle();
    await world.idle();
    expect(world.agents.heldOn("n1")).toEqual([]);
    expect(await world.states("web")).toEqual(["RELEASED", "RELEASED"]);
  });

  it("parts no set, wherever its controller dies, also when the node is opened again", async () => {
    for (let skip = 0; skip < 4; skip += 1) {
      await world.claim(`holder-${skip}`, "n2", ["data"]);
      await world.idle();
      const waiting = `set-${skip}`;
      await world.claim(waiting, "n1", ["data", "more", "shared"], queue);
      world.store.failCommits(1, skip);
      await drain({ mode: "release" });
      await world.drains.idle();
      world.kill();
      await world.nodeCommands.undrainNode({ name: "n1", reason: "" }, caller);
      world.store.failCommits(0, 0);
      await world.restart();
      expect(await world.states(waiting), `queued, ${skip}`).toSatisfy(allAlike);
      await world.release(`holder-${skip}`);
      await world.idle();
      expect(await world.states(waiting), `granted, ${skip}`).toSatisfy(allAlike);
      await world.release(waiting);
      await world.idle();
    }
  });

  it("goes on with the rest of a set of which a member was released by its own caller", async () => {
    await world.claim("holder", "n2", ["data"]);
    await world.idle();
    await world.claim("web", "n1", ["data", "more"], queue);
    await world.commands.releaseClaims(
      { namespace: "default", workload: "web", aliases: ["more"], claimUids: [] },
      caller,
    );
    await drain({ mode: "release" });
    await world.drains.idle();
    await world.idle();
    expect(await world.states("web")).toEqual(["RELEASED", "RELEASED"]);
    expect(world.agents.heldOn("n1")).toEqual([]);
  });

  it("pulls nothing away that is in use: the claim stays, blocked, and the drain says why", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.agents.script("release", { kind: "pending", blocked: true });
    await drain({ mode: "release" });
    await world.drains.idle();
    await world.idle();
    const { remaining } = await world.nodeCommands.drainView("n1");
    expect(remaining).toMatchObject([{ state: "RELEASING", volume: "data" }]);
    expect(remaining[0]?.blocked?.clearWith).not.toBe("");
    expect(world.agents.mounts()).toHaveLength(1);
  });

  it("[W48] that is overdue is told louder, and still forces nothing", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.drains.run().catch(() => undefined);
    await drain({ deadlineMs: 60_000 });
    await world.pass(50_000, 5_000);
    expect(world.drains.overdue("n1")).toBeUndefined();
    const watched = world.nodeLog.version();
    await world.pass(20_000, 5_000);
    expect(world.drains.overdue("n1")).toMatchObject({ remaining: 1, first: expect.stringContaining("default/data") });
    expect(world.agents.mounts()).toHaveLength(1);
    expect(world.nodeLog.since(watched)?.map(({ key }) => key)).toEqual(["n1"]);
    const told = world.nodeLog.version();
    await world.release("web");
    await world.pass(10_000, 5_000);
    expect(world.drains.overdue("n1")).toBeUndefined();
    // Who watches nodes sees that it is blocked, and that it no longer is.
    expect(world.nodeLog.since(told)?.map(({ key }) => key)).toEqual(["n1"]);
  });
});

describe("forgetting a node", () => {
  const forget = (dryRun = false) => world.nodeCommands.forgetNode({ name: "n1", reason: "sold", dryRun }, caller);

  it("is refused while its agent is alive, or while anything is there", async () => {
    await expect(forget()).rejects.toMatchObject({ reason: "NODE_NOT_SUSPECT" });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.nodes.set("n1", {}, "suspect");
    await expect(forget()).rejects.toMatchObject({
      reason: "NODE_IN_USE",
      metadata: { node: "n1", namespace: "default", volume: "data" },
    });
    await expect(forget(true)).rejects.toMatchObject({ reason: "NODE_IN_USE" });
    world.nodes.set("n1", {}, "unknown");
    await expect(forget()).rejects.toMatchObject({ reason: "NODE_NOT_SUSPECT" });
  });

  it("is refused while a bar stands there, or a claim waits for it", async () => {
    await world.records.change({ namespace: "default", id: "data" }, (volume, at) => ({
      volume: { ...volume, bars: [barRecord("n1", { since: at.now })], updatedAt: at.now },
      ended: [],
      notes: [],
    }));
    world.nodes.set("n1", {}, "suspect");
    await expect(forget()).rejects.toMatchObject({ reason: "NODE_IN_USE" });
    expect(await world.nodeCommands.drainView("n1")).toMatchObject({
      remaining: [{ state: "BARRED", volume: "data" }],
    });
    await world.claim("web", "n2", ["more"]);
    await world.claim("web-2", "n3", ["more"], queue);
    world.nodes.set("n3", {}, "suspect");
    await expect(
      world.nodeCommands.forgetNode({ name: "n3", reason: "", dryRun: false }, caller),
    ).rejects.toMatchObject({ reason: "NODE_IN_USE" });
  });

  it("[I8] is refused from a store that may have lost what is on the node", async () => {
    world.nodes.set("n1", {}, "suspect");
    world.gate.set(false);
    await expect(forget()).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    await expect(forget(true)).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    world.gate.set(true);
    expect((await forget()).effects).not.toEqual([]);
  });

  it("says what it would do, does it, and again is no error", async () => {
    world.nodes.set("n1", {}, "suspect");
    const told = await forget(true);
    expect(told.effects[0]).toContain("node n1 (machine machine-n1, incarnation 1)");
    expect(world.nodes.get("n1")).toBeDefined();
    expect(await forget()).toEqual(told);
    expect(world.nodes.get("n1")).toBeUndefined();
    expect((await forget()).effects[0]).toContain("nothing to do");
    await expect(world.claim("web", "n1", ["data"])).rejects.toMatchObject({ reason: "NODE_NOT_FOUND" });
  });

  it("refuses bad input whole", async () => {
    const wrong = { name: "N 1", reason: "x".repeat(600), dryRun: false };
    await expect(world.nodeCommands.forgetNode(wrong, caller)).rejects.toMatchObject({
      kind: "invalid",
      violations: [{ field: "name" }, { field: "reason" }],
    });
    await expect(drain({ name: "", deadlineMs: 1e12 })).rejects.toMatchObject({
      violations: [{ field: "name" }, { field: "deadline" }],
    });
  });
});
