/** A mode for many nodes, and a backend that takes one at a time: the second node waits for the detach of the first. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { orphanDetachWanted } from "../../domain/attachment/owed-change.ts";

let world: World;
let externalId = "";

beforeEach(async () => {
  world = await createWorld({ nodes: ["n1", "n2", "n3"] });
  world.backend.setOneNode(true);
  ({ externalId } = await world.makeVolume("data", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] }));
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const minute = 60_000;
const nodeless = {
  state: "DETACHING",
  needsCalls: true,
  readOnly: false,
  accessMode: "MULTI_NODE_MULTI_WRITER",
  attachmentMode: "FILE_SYSTEM",
  fsType: "",
  mountFlags: [],
  volumeMountGroup: "",
  publishContext: {},
  pluginVersion: "1.0.0",
  nodeEpoch: 0,
} as const;
const data = { namespace: "default", id: "data" };
const calls = () =>
  world.backend.calls.filter((c) => !c.startsWith("create")).map((c) => c.replace(externalId, "data"));
const explained = async (workload: string) => {
  const { claims, findings, nextActions } = await world.commands.explainVolume(data);
  return { told: claims.find(({ claim }) => claim.workload === workload), findings: findings.join("\n"), nextActions };
};
const used = async (workload: string, node: string) => {
  await world.claim(workload, node, ["data"]);
  await world.idle();
};
const nothingLeft = async () => {
  for (const workload of ["a", "b", "c"]) await world.release(workload);
  await world.pass(5 * minute, 5_000);
  const { claims, attachments, intent } = await world.volume("data");
  expect([claims, attachments, intent]).toEqual([{}, {}, undefined]);
  expect(world.backend.attachments()).toEqual([]);
  expect(world.reconciler.size()).toBe(0);
};
/** `a` is to leave n1 and its detach fails for now; `b` was refused at n2 meanwhile. */
const waiting = async () => {
  await used("a", "n1");
  await used("b", "n2");
  world.backend.chance((method) => (method === "unpublish" ? { kind: "dropped" } : undefined));
  await world.release("a");
  await world.idle();
};
const detachWorks = () => world.backend.chance(undefined);

describe("an attach that the backend refuses while another node has the volume", () => {
  it("C44 names the claim there and what to do, and takes its place as soon as that one is detached", async () => {
    await used("a", "n1");
    await used("b", "n2");
    const { told, nextActions } = await explained("b");
    expect(told).toMatchObject({
      claim: { state: "ATTACHING" },
      blocked: { reason: "ATTACHED_ELSEWHERE", missingProof: "that default/data is detached from node n1" },
      waitingFor: "the detach from node n1",
      lastError: { reason: "ATTACHED_ELSEWHERE", code: "FAILED_PRECONDITION" },
    });
    expect(told?.blocked?.message).toContain("while node n1 has it, for workload a (ACTIVE)");
    expect(nextActions).toEqual(["holdfast claim release a data --namespace default"]);
    expect(await world.states("a")).toEqual(["ACTIVE"]);

    await world.release("a");
    await world.idle();
    expect(await world.states("b")).toEqual(["ACTIVE"]);
    expect(calls()).toEqual(["publish data@n1", "publish data@n2", "unpublish data@n1", "publish data@n2"]);
    await nothingLeft();
  });

  it("[I6] never detaches a node under its claim, however long it waits", async () => {
    await used("a", "n1");
    await used("b", "n2");
    await world.pass(30 * minute, 5_000);
    expect(await world.states("a")).toEqual(["ACTIVE"]);
    expect(calls().filter((c) => c.startsWith("unpublish"))).toEqual([]);
    expect(calls().length).toBeGreaterThan(10);
    await nothingLeft();
  });

  it("C44 says that it waits for the detach, and makes no call while that is owed", async () => {
    await waiting();
    const before = calls().filter((c) => c === "publish data@n2").length;
    const { told, findings } = await explained("b");
    expect(told).toMatchObject({ blocked: undefined, waitingFor: "the detach from node n1" });
    expect(findings).toContain("waits for: the detach from node n1");
    expect(calls().filter((c) => c === "publish data@n2")).toHaveLength(before);
    detachWorks();
    await world.pass(2 * minute);
    expect(await world.states("b")).toEqual(["ACTIVE"]);
    expect(calls().slice(-2)).toEqual(["unpublish data@n1", "publish data@n2"]);
    await nothingLeft();
  });

  it("[I4] waits through a restart of the controller, and starts its call with an intent of its own", async () => {
    await waiting();
    expect((await world.volume("data")).intent).toMatchObject({ op: "detach", node: "n1" });
    await world.restart();
    world.killAt("controller.attach.after-commit");
    detachWorks();
    await world.pass(2 * minute);
    expect(world.alive).toBe(false);
    expect((await world.volume("data")).intent).toMatchObject({ op: "attach", node: "n2" });
    await world.restart();
    await world.pass(2 * minute);
    expect(await world.states("b")).toEqual(["ACTIVE"]);
    await nothingLeft();
  });

  it.each(["lost", "dropped"] as const)(
    "[I5] goes on after a %s answer of the detach and of its own call",
    async (kind) => {
      await used("a", "n1");
      await used("b", "n2");
      world.backend.script("unpublish", { kind });
      world.backend.script("publish", { kind }, { kind });
      await world.release("a");
      await world.pass(2 * minute);
      expect(await world.states("b")).toEqual(["ACTIVE"]);
      expect(world.backend.attachments()).toEqual([`${externalId}@n2`]);
      await nothingLeft();
    },
  );

  it("[I5] keeps the doubt of a try without answer: a refusal after the wait proves nothing, and its undo is owed", async () => {
    world.backend.setOneNode(false);
    await used("a", "n1");
    world.backend.script(
      "publish",
      { kind: "lost" },
      { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" },
    );
    await world.claim("b", "n2", ["data"]);
    await world.pass(5_000);
    const { intent, attachments } = await world.volume("data");
    expect(intent).toBeUndefined();
    expect(attachments["n2"]?.paused).toMatchObject({ behind: ["n1"], uncertainSince: expect.any(Number) });
    world.backend.script("publish", { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    await world.release("a");
    await world.pass(minute);
    expect(await world.states("b")).toEqual(["FAILED"]);
    expect(calls().slice(-2)).toEqual(["publish data@n2", "unpublish data@n2"]);
    await nothingLeft();
  });

  it("[I5] gives way when nobody wants it any more, in whatever order the two go", async () => {
    await waiting();
    await world.release("b");
    detachWorks();
    await world.pass(2 * minute);
    expect([await world.states("a"), await world.states("b")]).toEqual([["RELEASED"], ["RELEASED"]]);
    await nothingLeft();
  });

  it("is not overtaken by a third node, which is told for whom it waits; the node that has it takes more claims", async () => {
    await used("a", "n1");
    await used("b", "n2");
    await world.claim("c", "n3", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await used("beside", "n1");
    expect(await world.states("beside")).toEqual(["ACTIVE"]);
    expect((await explained("c")).told).toMatchObject({
      claim: { state: "QUEUED" },
      obstacle: "VOLUME_BUSY",
      waitingFor: "volume default/data is to be attached to node n2 first, which waits for the detach from node n1",
    });
    await world.release("beside");
    world.backend.chance((method) => (method === "unpublish" ? { kind: "dropped" } : undefined));
    await world.release("a");
    await world.idle();
    expect(await world.states("c")).toEqual(["QUEUED"]);
    detachWorks();
    await world.pass(2 * minute);
    expect(await world.states("b")).toEqual(["ACTIVE"]);
    await world.release("b");
    await world.pass(minute);
    expect(await world.states("c")).toEqual(["ACTIVE"]);
    await nothingLeft();
  });

  it("FOREIGN_ATTACHMENT leaves the volume's other calls alone: what is nobody's can be detached, and the claim goes on", async () => {
    world.backend.attach(externalId, "n9");
    await used("b", "n2");
    expect((await explained("b")).told).toMatchObject({ blocked: { reason: "FOREIGN_ATTACHMENT" }, waitingFor: "" });
    await world.commands.expandVolume({ ...data, capacity: { required: 2_000_000, limit: 0 }, requestId: "" }, caller);
    await world.idle();
    expect(world.backend.sizes()[externalId]).toBe(2_000_000);
    // Its removal was approved: the record owes its detach now, and the claim has its turn after that.
    const orphan = { ...nodeless, node: "n9", nodeId: "n9" };
    world.backend.script("unpublish", { kind: "lost" });
    await world.records.change(data, (v, at) => orphanDetachWanted(v, orphan, at));
    await world.pass(2 * minute);
    expect(await world.states("b")).toEqual(["ACTIVE"]);
    await nothingLeft();
  });
});
