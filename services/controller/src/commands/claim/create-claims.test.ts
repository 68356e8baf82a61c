import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  caller,
  capability,
  claimsInput,
  createWorld,
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

const queue = { queue: { enabled: true, deadlineMs: 600_000 } };
const shared = { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] };

const refusal = async (promise: Promise<unknown>): Promise<{ reason: string; metadata: object; kind: string }> => {
  try {
    await promise;
  } catch (error) {
    if (isHoldfastError(error)) return { reason: error.reason, metadata: error.metadata, kind: error.kind };
    throw error;
  }
  throw new Error("it was not refused");
};

const allClaims = async (...volumes: readonly string[]) =>
  (await Promise.all(volumes.map((v) => world.volume(v)))).flatMap((v) =>
    Object.values(v.claims).map((c) => `${v.id}:${c.workload}:${c.state}`),
  );

describe("CreateClaims", () => {
  it("[I1] of a hundred at once for a single-writer volume one holds it and all others are told who", async () => {
    await world.makeVolume("data");
    const answers = await Promise.allSettled(
      Array.from({ length: 100 }, (_, i) => world.claim(`w${i}`, `n${(i % 3) + 1}`, ["data"])),
    );
    const holders = Object.values((await world.volume("data")).claims);
    expect(holders).toHaveLength(1);
    const holder = holders[0];
    expect(answers.filter((a) => a.status === "fulfilled")).toHaveLength(1);
    const refusals = answers.filter((a) => a.status === "rejected");
    expect(refusals).toHaveLength(99);
    for (const { reason } of refusals)
      expect(reason).toMatchObject({
        reason: "CLAIM_CONFLICT",
        metadata: { volume: "data", holder_workload: holder?.workload, holder_node: holder?.node },
      });
    await world.idle();
    expect(world.agents.mounts()).toEqual([`default/data@${holder?.node}`]);
  });

  it("never lets a successor and an older set wait for each other, when its set is larger than what it takes over", async () => {
    for (const id of ["a", "b"]) await world.makeVolume(id);
    await world.claim("old", "n1", ["b"]);
    await world.idle();
    await world.claim("older", "n2", ["a", "b"], queue);
    await world.claim("new", "n3", ["a", "b"], { ...queue, after: ["old"] });
    await world.release("old");
    await world.idle();
    expect(await world.states("new")).toEqual(["ACTIVE", "ACTIVE"]);
    await world.release("new");
    await world.idle();
    expect(await world.states("older")).toEqual(["ACTIVE", "ACTIVE"]);
  });

  it("GR2 marks a volume that was restored in a set from the commit of its first claim on, queued or granted", async () => {
    for (const id of ["a", "b"]) {
      await world.makeVolume(id);
      const members = ["a", "b"].map((one) => ({ source: `old-${one}`, id: one }));
      await world.records.change({ namespace: "default", id }, (volume) => ({
        volume: { ...volume, restore: { uid: "set", group: "g", members } },
        ended: [],
        notes: [],
      }));
    }
    await world.claim("web", "n1", ["a"]);
    await world.claim("late", "n2", ["a"], queue);
    expect((await world.volume("a")).restore?.claimed).toBe(true);
    expect((await world.volume("b")).restore?.claimed).toBeUndefined();
    await world.release("web");
    await world.release("late");
    await world.idle();
    expect((await world.volume("a")).restore?.claimed).toBe(true);
  });

  it("grants a set of three all or not at all", async () => {
    for (const id of ["a", "b", "c"]) await world.makeVolume(id);
    await world.claim("other", "n2", ["b"]);
    await world.idle();
    expect(await refusal(world.claim("web", "n1", ["a", "b", "c"]))).toMatchObject({
      reason: "CLAIM_CONFLICT",
      metadata: { volume: "b", holder_workload: "other", holder_node: "n2", holder_alias: "b" },
    });
    expect(await allClaims("a", "b", "c")).toEqual(["b:other:ACTIVE"]);

    await world.release("other");
    await world.idle();
    const before = world.store.commits();
    const views = await world.claim("web", "n1", ["a", "b", "c"]);
    expect(world.store.commits() - before).toBe(1);
    expect(views.map((v) => v.claim.state)).toEqual(["ATTACHING", "ATTACHING", "ATTACHING"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE", "ACTIVE", "ACTIVE"]);
  });

  it("answers the same claims to the same request, whatever the request id, and stores nothing twice", async () => {
    await world.makeVolume("data");
    const [first] = await world.claim("web", "n1", ["data"], { requestId: "r1" });
    const [second] = await world.claim("web", "n1", ["data"], { requestId: "r2" });
    expect(second?.claim.uid).toBe(first?.claim.uid);
    await world.idle();
    const before = world.store.commits();
    const [third] = await world.claim("web", "n1", ["data"]);
    expect(third?.claim).toMatchObject({ uid: first?.claim.uid, state: "ACTIVE" });
    expect(world.store.commits()).toBe(before);
  });

  it("refuses other content under a living alias and names the field", async () => {
    await world.makeVolume("data", shared);
    await world.makeVolume("more", shared);
    await world.claim("web", "n1", ["data"]);
    expect(await refusal(world.claim("web", "n2", ["data"]))).toMatchObject({
      kind: "already_exists",
      reason: "CLAIM_EXISTS",
      metadata: { field: "node", node: "n1", alias: "data" },
    });
    const readOnly = [{ volume: "data", alias: "", capability: undefined, readOnly: true }];
    expect(await refusal(world.claim("web", "n1", [], { claims: readOnly }))).toMatchObject({
      metadata: { field: "read_only" },
    });
    const sameAlias = [{ volume: "more", alias: "data", capability: undefined, readOnly: false }];
    expect(await refusal(world.claim("web", "n1", [], { claims: sameAlias }))).toMatchObject({
      reason: "CLAIM_EXISTS",
      metadata: { field: "volume", volume: "data" },
    });
  });

  it("queues a new life of a key behind the one that is being released", async () => {
    await world.makeVolume("data");
    const [old] = await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.agents.script("release", { kind: "pending", blocked: true });
    await world.release("web");
    await world.idle();
    const [next] = await world.claim("web", "n2", ["data"]);
    expect(next?.claim).toMatchObject({ state: "QUEUED", node: "n2" });
    expect(next?.claim.uid).not.toBe(old?.claim.uid);
    await world.pass(120_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.agents.mounts()).toEqual(["default/data@n2"]);
    const over = await world.commands.getClaim({
      namespace: "default",
      volume: "data",
      workload: "web",
      alias: "data",
      uid: old?.claim.uid ?? "",
    });
    expect(over).toMatchObject({ kind: "over", claim: { state: "RELEASED", node: "n1" } });
  });

  it("names what is missing or wrong before anything is written", async () => {
    await world.makeVolume("data");
    const before = world.store.commits();
    expect(await refusal(world.claim("web", "n1", ["data", "nope"]))).toMatchObject({
      reason: "VOLUME_NOT_FOUND",
      metadata: { volume: "nope" },
    });
    expect(await refusal(world.claim("web", "n9", ["data"]))).toMatchObject({
      reason: "NODE_NOT_FOUND",
      metadata: { node: "n9" },
    });
    const block = { ...capability(), attachmentMode: "BLOCK_DEVICE" as const, fsType: "" };
    const asBlock = [{ volume: "data", alias: "", capability: block, readOnly: false }];
    expect(await refusal(world.claim("web", "n1", [], { claims: asBlock }))).toMatchObject({
      reason: "CAPABILITY_MISMATCH",
      metadata: { field: "attachment_mode", wanted: "BLOCK_DEVICE", has: "FILE_SYSTEM" },
    });
    world.nodes.set("n1", {}, "suspect");
    expect(await refusal(world.claim("web", "n1", ["data"]))).toMatchObject({
      reason: "NODE_NOT_READY",
      metadata: { state: "SUSPECT" },
    });
    world.gate.set(false);
    expect(await refusal(world.claim("web", "n2", ["data"]))).toMatchObject({
      kind: "unavailable",
      reason: "STORE_UNVETTED",
    });
    expect(world.store.commits()).toBe(before);
  });

  it("collects every violation of a request", async () => {
    const input = claimsInput("web ", "n..1", ["data", "data"], { queue: { enabled: true, deadlineMs: -1 } });
    const unknown = { ...capability("UNKNOWN"), fsType: "EXT 4" };
    const claims = [...input.claims, { volume: "", alias: "-", capability: unknown, readOnly: false }];
    await expect(world.commands.createClaims({ ...input, namespace: "", claims }, caller)).rejects.toMatchObject({
      reason: "INVALID_ARGUMENT",
      violations: [
        { field: "namespace" },
        { field: "workload" },
        { field: "node" },
        { field: "claims[2].volume" },
        { field: "claims[2].alias" },
        { field: "claims[2].capability.access_mode" },
        { field: "claims[2].capability.fs_type" },
        { field: "claims[1].alias" },
        { field: "queue.deadline" },
      ],
    });
  });

  it("lets members of one set share a volume when its mode does, and refuses when it does not", async () => {
    await world.makeVolume("shared", shared);
    await world.makeVolume("single");
    const twice = (volume: string) =>
      ["one", "two"].map((alias) => ({ volume, alias, capability: undefined, readOnly: false }));
    await world.claim("web", "n1", [], { claims: twice("shared") });
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE", "ACTIVE"]);
    expect(world.backend.calls.filter((c) => c.startsWith("publish"))).toHaveLength(1);
    expect(await refusal(world.claim("db", "n1", [], { ...queue, claims: twice("single") }))).toMatchObject({
      reason: "CLAIM_CONFLICT",
    });
    expect(await allClaims("single")).toEqual([]);
  });
});

describe("the queue", () => {
  it("hands a volume on without a poll, in the order of asking", async () => {
    await world.makeVolume("data");
    await world.claim("first", "n1", ["data"]);
    await world.idle();
    await world.claim("second", "n2", ["data"], queue);
    await world.clock.advance(5);
    await world.claim("third", "n3", ["data"], queue);
    await world.idle();
    expect(await allClaims("data")).toEqual(["data:first:ACTIVE", "data:second:QUEUED", "data:third:QUEUED"]);
    const at = world.clock.now();
    await world.release("first");
    await world.idle();
    expect(await allClaims("data")).toEqual(["data:second:ACTIVE", "data:third:QUEUED"]);
    expect(world.clock.now()).toBe(at);
    await world.release("second");
    await world.idle();
    expect(await allClaims("data")).toEqual(["data:third:ACTIVE"]);
  });

  it("ends a claim at its deadline and names who held the volume", async () => {
    await world.makeVolume("data");
    await world.claim("first", "n1", ["data"]);
    await world.claim("second", "n2", ["data"], { queue: { enabled: true, deadlineMs: 10_000 } });
    await world.pass(9_000);
    expect(await world.states("second")).toEqual(["QUEUED"]);
    await world.pass(2_000);
    const [view] = await world.commands.selectClaims({
      namespace: "default",
      workload: "second",
      aliases: [],
      claimUids: [],
    });
    expect(view?.claim.state).toBe("FAILED");
    expect(view?.kind === "over" && view.claim.failure).toMatchObject({
      reason: "QUEUE_TIMEOUT",
      message: expect.stringContaining("workload first on node n1"),
    });
    expect(await allClaims("data")).toEqual(["data:first:ACTIVE"]);
  });

  it("never lets two sets in opposite order wait for each other", async () => {
    for (const id of ["a", "b"]) await world.makeVolume(id);
    await world.claim("holder", "n3", ["a", "b"]);
    await world.idle();
    await world.claim("one", "n1", ["a", "b"], queue);
    await world.claim("two", "n2", ["b", "a"], queue);
    await world.release("holder");
    await world.pass(5_000);
    expect(await allClaims("a", "b")).toEqual(["a:one:ACTIVE", "a:two:QUEUED", "b:one:ACTIVE", "b:two:QUEUED"]);
    await world.release("one");
    await world.pass(5_000);
    expect(await allClaims("a", "b")).toEqual(["a:two:ACTIVE", "b:two:ACTIVE"]);
  });

  it("grants a set that waited only as a whole", async () => {
    for (const id of ["a", "b"]) await world.makeVolume(id);
    await world.claim("one", "n1", ["a"]);
    await world.claim("two", "n1", ["b"]);
    await world.idle();
    await world.claim("both", "n2", ["a", "b"], queue);
    await world.release("one");
    await world.pass(10_000);
    expect(await allClaims("a", "b")).toEqual(["a:both:QUEUED", "b:two:ACTIVE", "b:both:QUEUED"]);
    expect(world.backend.attachments()).toHaveLength(1);
    const before = world.store.commits();
    await world.release("two");
    await world.idle();
    expect(await allClaims("a", "b")).toEqual(["a:both:ACTIVE", "b:both:ACTIVE"]);
    // Three for the release, one grant for both members, then an attach and a publication for each.
    expect(world.store.commits() - before).toBe(8);
  });

  it("lets a member that nobody wants any more hold up the others no longer", async () => {
    for (const id of ["a", "b"]) await world.makeVolume(id);
    await world.claim("holder", "n1", ["b"]);
    await world.idle();
    const views = await world.claim("both", "n2", ["a", "b"], queue);
    await world.release("both", [views[1]?.claim.uid ?? ""]);
    await world.idle();
    expect(await allClaims("a", "b")).toEqual(["a:both:ACTIVE", "b:holder:ACTIVE"]);
  });

  it("ends a whole set at its deadline", async () => {
    for (const id of ["a", "b"]) await world.makeVolume(id);
    await world.claim("holder", "n1", ["b"]);
    await world.claim("both", "n2", ["a", "b"], { queue: { enabled: true, deadlineMs: 5_000 } });
    await world.pass(6_000);
    const views = await world.commands.selectClaims({
      namespace: "default",
      workload: "both",
      aliases: [],
      claimUids: [],
    });
    expect(views.map((v) => v.claim)).toMatchObject([
      { state: "FAILED", failure: { reason: "QUEUE_TIMEOUT" } },
      { state: "FAILED", failure: { reason: "QUEUE_TIMEOUT" } },
    ]);
    for (const { claim } of views) expect(claim.failure?.message).toContain("default/b by workload holder on node n1");
  });

  it("hands over to the successor before all others", async () => {
    await world.makeVolume("data");
    await world.claim("old", "n1", ["data"]);
    await world.idle();
    await world.claim("stranger", "n2", ["data"], queue);
    await world.clock.advance(5);
    const order = { namespace: "default", fromWorkload: "old", aliases: [], deadlineMs: undefined, requestId: "" };
    const views = await world.commands.handOver({ ...order, toWorkload: "new", toNode: "n3" }, caller);
    expect(views.map((v) => v.claim)).toMatchObject([{ workload: "new", state: "QUEUED", after: "old" }]);
    expect(
      await refusal(world.commands.handOver({ ...order, toWorkload: "newer", toNode: "n3" }, caller)),
    ).toMatchObject({ reason: "CLAIM_CONFLICT", metadata: { holder_workload: "new" } });
    await world.release("old");
    await world.idle();
    expect(await allClaims("data")).toEqual(["data:stranger:QUEUED", "data:new:ACTIVE"]);
  });

  it("is not handed over what the named holder only waits for itself", async () => {
    for (const id of ["data", "more"]) await world.makeVolume(id);
    await world.claim("holder", "n1", ["data"]);
    await world.claim("waits", "n2", ["more"]);
    await world.idle();
    await world.claim("stranger", "n3", ["data"], queue);
    await world.clock.advance(5);
    await world.claim("waits", "n2", ["data"], queue);
    const order = {
      namespace: "default",
      fromWorkload: "waits",
      toWorkload: "heir",
      toNode: "n3",
      deadlineMs: undefined,
      requestId: "",
    };
    for (const aliases of [[], ["data"], ["more", "data"]])
      expect(await refusal(world.commands.handOver({ ...order, aliases }, caller))).toMatchObject({
        kind: "precondition",
        reason: "HOLDER_QUEUED",
        metadata: { namespace: "default", volume: "data", workload: "waits", alias: "data" },
      });
    expect(await allClaims("data")).toEqual(["data:holder:ACTIVE", "data:stranger:QUEUED", "data:waits:QUEUED"]);
    // What it has, it hands over.
    const [heir] = await world.commands.handOver({ ...order, aliases: ["more"] }, caller);
    expect(heir?.claim).toMatchObject({ workload: "heir", state: "QUEUED", after: "waits" });
  });

  it("does not follow who only waits: its place is by its own ticket", async () => {
    await world.makeVolume("data");
    await world.claim("holder", "n1", ["data"]);
    await world.idle();
    for (const [workload, node] of [
      ["stranger", "n3"],
      ["old", "n2"],
    ] as const) {
      await world.claim(workload, node, ["data"], queue);
      await world.clock.advance(5);
    }
    const [next] = await world.claim("new", "n2", ["data"], { ...queue, after: ["old"] });
    expect(next?.claim).not.toHaveProperty("after");
    const granted: string[] = [];
    for (const workload of ["holder", "stranger", "old"]) {
      await world.release(workload);
      await world.idle();
      const [active] = (await allClaims("data")).filter((claim) => claim.endsWith("ACTIVE"));
      granted.push(active ?? "");
    }
    expect(granted).toEqual(["data:stranger:ACTIVE", "data:old:ACTIVE", "data:new:ACTIVE"]);
  });

  it("waits by itself only for the volume's own work", async () => {
    await world.makeVolume("data", shared);
    let letGo: () => void = () => undefined;
    world.backend.script("publish", { kind: "held", until: new Promise((resolve) => (letGo = () => resolve())) });
    await world.claim("one", "n1", ["data"]);
    await world.clock.advance(0);
    const [two] = await world.claim("two", "n2", ["data"]);
    expect(two?.claim.state).toBe("QUEUED");
    expect(two?.kind === "living" && two.waitingFor).toContain("a call in progress (attach n1)");
    letGo();
    await world.idle();
    expect(await allClaims("data")).toEqual(["data:one:ACTIVE", "data:two:ACTIVE"]);
  });
});

describe("a set whose member fails", () => {
  it("lets go of the others in the same commit", async () => {
    for (const id of ["a", "b", "c"]) await world.makeVolume(id);
    world.backend.script("publish", { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    await world.claim("web", "n1", ["a", "b", "c"]);
    await world.pass(60_000);
    const views = await world.commands.selectClaims({
      namespace: "default",
      workload: "web",
      aliases: [],
      claimUids: [],
    });
    expect(views.map((v) => v.claim.state)).toEqual(["FAILED", "FAILED", "FAILED"]);
    const reasons = views.map((v) => v.claim.failure?.reason).sort();
    expect(reasons).toEqual(["INVALID_ARGUMENT", "SET_MEMBER_FAILED", "SET_MEMBER_FAILED"]);
    expect(world.backend.attachments()).toEqual([]);
    expect(world.agents.mounts()).toEqual([]);
  });

  it("does not pull a running workload's volumes when one publication fails later", async () => {
    for (const id of ["a", "b"]) await world.makeVolume(id);
    await world.claim("web", "n1", ["a", "b"]);
    await world.idle();
    world.agents.reboot("n1");
    world.agents.script("publish", { kind: "not-mounted" });
    world.nodes.set("n1", { bootId: "boot-n1-2", instance: "instance-n1-2" });
    await world.pass(60_000);
    expect(await allClaims("a", "b")).toHaveLength(1);
    expect(world.agents.mounts()).toHaveLength(1);
  });
});
