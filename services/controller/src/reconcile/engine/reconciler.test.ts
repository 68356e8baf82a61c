import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  caller,
  capability,
  createWorld,
  volumeInput,
  type World,
} from "../../../../../test/support/controller/world.ts";

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
    // One right before each of the two calls to the plugin.
    expect(world.store.reads() - before.reads).toBe(2);
    expect((await world.volume("data")).claims).toEqual({});
    await clean();
  });

  it("goes without ControllerPublish for a plugin that has none", async () => {
    world.backend.setFacts({ attaches: "no" });
    await world.makeVolume("data");
    const before = world.store.commits();
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.store.commits() - before).toBe(2);
    await world.release("web");
    await world.idle();
    expect(world.backend.calls.filter((c) => !c.startsWith("create"))).toEqual([]);
    await clean();
  });

  it("detaches only after the last claim of a node is gone", async () => {
    await world.makeVolume("data", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
    await world.claim("one", "n1", ["data"]);
    await world.idle();
    await world.claim("two", "n1", ["data"]);
    await world.claim("three", "n2", ["data"]);
    await world.idle();
    expect(world.backend.attachments()).toHaveLength(2);
    await world.release("one");
    await world.idle();
    expect(world.backend.attachments()).toHaveLength(2);
    expect([...world.agents.mounts()].sort()).toEqual(["default/data@n1", "default/data@n2"]);
    await world.release("two");
    await world.release("three");
    await world.idle();
    await clean();
  });

  it("[I6] a controller that starts takes up at once what another left", async () => {
    await world.makeVolume("data");
    world.killAt("controller.attach.after-commit");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(world.alive).toBe(false);
    const at = world.clock.now();
    await world.restart();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.clock.now() - at).toBeLessThan(1_000);
  });

  it("[I6] a controller that starts takes up at once a volume that is on no node", async () => {
    world.killAt("controller.create.after-commit");
    await world.commands.createVolume(volumeInput("data"), caller);
    await world.idle();
    expect(world.alive).toBe(false);
    await world.restart();
    expect((await world.volume("data")).state).toBe("AVAILABLE");
  });

  it("tries again soon after the store was away", async () => {
    await world.makeVolume("data");
    world.store.failCommits(2, 1);
    await world.claim("web", "n1", ["data"]);
    await world.pass(4_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.backend.calls.filter((c) => c.startsWith("publish"))).toHaveLength(3);
  });

  it("keeps no memory of a volume that waits, and takes it up when what it waits for comes", async () => {
    await world.makeVolume("data");
    world.backend.setFacts({ ready: false });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ATTACHING"]);
    expect(world.reconciler.size()).toBe(0);
    world.backend.setFacts({ ready: true });
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("offers nothing to a silent node, and asks it to release all the same", async () => {
    await world.makeVolume("data");
    await world.makeVolume("more");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.nodes.set("n1", {}, "suspect");
    await world.claim("db", "n1", ["more"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.release("web");
    await world.idle();
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(await world.states("db")).toEqual(["QUEUED"]);
    world.nodes.set("n1", {}, "alive");
    await world.idle();
    expect(await world.states("db")).toEqual(["ACTIVE"]);
  });

  it("asks a node at once that was silent and speaks again, whatever the backoff says", async () => {
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.agents.silence("n1", true);
    world.nodes.set("n1", {}, "suspect");
    await world.release("web");
    await world.pass(60_000);
    expect(await world.states("web")).toEqual(["RELEASING"]);
    expect(world.backend.attachments()).toHaveLength(1);
    const [claim] = Object.values((await world.volume("data")).claims);
    expect((claim?.attempts.nextTry ?? 0) - world.clock.now()).toBeGreaterThan(1_000);
    world.agents.silence("n1", false);
    world.nodes.set("n1", {}, "alive");
    await world.idle();
    expect(await world.states("web")).toEqual(["RELEASED"]);
    await clean();
  });

  it("asks it at once for every claim of a volume, not only for the first", async () => {
    await world.makeVolume("data", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
    const workloads = ["one", "two", "three"];
    for (const workload of workloads) await world.claim(workload, "n1", ["data"]);
    await world.idle();
    world.agents.silence("n1", true);
    world.nodes.set("n1", {}, "suspect");
    for (const workload of workloads) await world.release(workload);
    await world.pass(60_000);
    world.agents.silence("n1", false);
    world.nodes.set("n1", {}, "alive");
    await world.idle();
    for (const workload of workloads) expect(await world.states(workload)).toEqual(["RELEASED"]);
    await clean();
  });

  it("notices that a node came back in another boot although the store was away in that moment", async () => {
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.agents.reboot("n1");
    world.store.failLists(2);
    world.nodes.set("n1", { bootId: "boot-n1-2" });
    await world.pass(60_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
  });

  it("lets one slow volume delay no other", async () => {
    await world.makeVolume("slow");
    await world.makeVolume("fast");
    let letGo: () => void = () => undefined;
    world.backend.script("publish", { kind: "held", until: new Promise((resolve) => (letGo = () => resolve())) });
    await world.claim("one", "n1", ["slow"]);
    await world.clock.advance(0);
    await world.claim("two", "n2", ["fast"]);
    await world.clock.advance(0);
    await world.clock.advance(0);
    expect(await world.states("two")).toEqual(["ACTIVE"]);
    expect(await world.states("one")).toEqual(["ATTACHING"]);
    letGo();
    await world.idle();
    expect(await world.states("one")).toEqual(["ACTIVE"]);
  });
});

describe("an attach in doubt", () => {
  const attached = () => world.backend.attachments();

  it("[I5] is undone when a repeat is refused after an answer was lost", async () => {
    await world.makeVolume("data");
    world.backend.script("publish", { kind: "lost" }, { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(attached()).toHaveLength(1);
    await world.pass(10_000);
    expect(await world.states("web")).toEqual(["FAILED"]);
    expect(attached()).toEqual([]);
    expect(world.backend.calls.at(-1)).toContain("unpublish");
  });

  it("[I5] is undone when a repeat is refused after a controller died with the answer", async () => {
    await world.makeVolume("data");
    world.killAt("controller.attach.after-call");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(attached()).toHaveLength(1);
    world.backend.script("publish", { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    await world.restart();
    await world.pass(1_000);
    expect(await world.states("web")).toEqual(["FAILED"]);
    expect(attached()).toEqual([]);
  });

  it("is not undone when the first answer refuses it for certain", async () => {
    await world.makeVolume("data");
    world.backend.script("publish", { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    await world.claim("web", "n1", ["data"]);
    await world.pass(10_000);
    expect(await world.states("web")).toEqual(["FAILED"]);
    expect(world.backend.calls.filter((c) => c.startsWith("unpublish"))).toEqual([]);
  });

  it("is blocked, with its proof and its command, when the backend has it attached to a node that no record explains", async () => {
    const volume = await world.makeVolume("data");
    world.backend.attach(volume.externalId, "n9");
    await world.claim("web", "n1", ["data"]);
    await world.pass(5_000);
    const [claim] = Object.values((await world.volume("data")).claims);
    expect(claim).toMatchObject({ state: "ATTACHING", blocked: { reason: "FOREIGN_ATTACHMENT" } });
    expect(claim?.blocked?.clearWith).toContain("holdfast repair scan --kind attachment --plugin csi.example");
    expect(attached()).toEqual([`${volume.externalId}@n9`]);
    await world.release("web");
    await world.pass(5_000);
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(attached()).toEqual([`${volume.externalId}@n9`]);
  });

  it("serves a second claim of the node with the same call, and one of them may go while it runs", async () => {
    await world.makeVolume("data", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
    let letGo: () => void = () => undefined;
    world.backend.script("publish", { kind: "held", until: new Promise((resolve) => (letGo = () => resolve())) });
    await world.claim("one", "n1", ["data"]);
    await world.clock.advance(0);
    const [two] = await world.claim("two", "n1", ["data"]);
    expect(two?.claim.state).toBe("ATTACHING");
    await world.release("one");
    letGo();
    await world.idle();
    expect(await world.states("one")).toEqual(["RELEASED"]);
    expect(await world.states("two")).toEqual(["ACTIVE"]);
    expect(world.backend.calls.filter((c) => !c.startsWith("create"))).toHaveLength(1);
    await world.release("two");
    await world.idle();
    await clean();
  });
});

describe("a detach", () => {
  const claimed = async () => {
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
  };

  it("that answers NOT_FOUND is believed only with the backend's word", async () => {
    await claimed();
    world.backend.setAbsence("unknown");
    world.backend.script("unpublish", { kind: "unknown", advice: "check-absence", code: "NOT_FOUND" });
    await world.release("web");
    await world.idle();
    const [claim] = Object.values((await world.volume("data")).claims);
    expect(claim).toMatchObject({ state: "DETACHING", blocked: { reason: "DETACH_UNPROVEN" } });
    expect(claim?.blocked?.clearWith).toBe("holdfast repair assert-detached data n1 --namespace default");
    world.backend.setAbsence("yes");
    world.backend.script("unpublish", { kind: "unknown", advice: "check-absence", code: "NOT_FOUND" });
    await world.pass(60_000);
    expect(await world.states("web")).toEqual(["RELEASED"]);
  });

  it("W41: a release that is held is tried at once when it is asked for again, by the same record", async () => {
    await claimed();
    world.agents.script("release", { kind: "pending", blocked: true });
    await world.release("web");
    await world.idle();
    const [claim] = Object.values((await world.volume("data")).claims);
    expect(claim).toMatchObject({ state: "RELEASING", attempts: { count: 1, lastError: { reason: "MOUNT_HELD" } } });
    const [at, commits] = [world.clock.now(), world.store.commits()];
    expect(claim?.attempts.nextTry).toBeGreaterThan(at + 1_000);
    await world.release("web");
    await world.idle();
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(world.clock.now() - at).toBeLessThan(1_000);
    // The repeat itself writes nothing.
    expect(world.store.commits() - commits).toBe(2);
    await clean();
  });

  it("W41: a deletion that was refused is tried at once when it is asked for again", async () => {
    await world.makeVolume("data");
    world.backend.script("delete", { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" });
    const remove = () =>
      world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
    await remove();
    await world.idle();
    expect((await world.volume("data")).blocked?.reason).toBe("PLUGIN_REFUSED");
    const at = world.clock.now();
    await remove();
    await world.idle();
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    expect(world.clock.now() - at).toBeLessThan(1_000);
  });

  it("[I2] waits while a process holds the mount, blocked, and goes on by itself", async () => {
    await claimed();
    world.agents.script("release", { kind: "pending", blocked: true }, { kind: "pending", blocked: true });
    await world.release("web");
    await world.idle();
    const [claim] = Object.values((await world.volume("data")).claims);
    expect(claim).toMatchObject({ state: "RELEASING", blocked: { reason: "MOUNT_HELD" } });
    const since = claim?.blocked?.since;
    await world.pass(10_000);
    expect(world.backend.attachments()).toHaveLength(1);
    expect(Object.values((await world.volume("data")).claims)[0]?.blocked?.since).toBe(since);
    await world.pass(60_000);
    expect(await world.states("web")).toEqual(["RELEASED"]);
    await clean();
  });
});
