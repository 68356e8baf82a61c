/** A gate that does not answer: its call is overtaken at another one, behind a bar. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { caller, createWorld, plugin, volumeInput, type World } from "../../../../../test/support/controller/world.ts";
import { barAsked } from "../../domain/bar.ts";
import { noChange } from "../../domain/change.ts";
import type { Seat } from "../../domain/open-call.ts";
import { nameOnNode } from "../../domain/plugin/instance-name.ts";
import type { Decide } from "../../records/volume/volume-decisions.ts";

let world: World;
const seat = (node: string, gate = "life-1"): Seat => ({ via: nameOnNode(plugin, node), gate });
const [g1, g2] = [seat("g1"), seat("g2")];

beforeEach(async () => {
  world = await createWorld();
  world.backend.setSeats(g1, g2);
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

/** A call that lies at its gate until it is let go. */
const lying = () => {
  let arrive = (): void => undefined;
  const arrives = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  return { fault: { kind: "late", arrives } as const, arrive };
};
const bars = async () => (await world.volume("data")).bars;
const callsSince = (from: number) => world.backend.calls.slice(from);

/** The detach of n1 lies at g1, which does not answer any more. */
const frozenDetach = async () => {
  await world.makeVolume("data");
  await world.claim("job", "n1", ["data"]);
  await world.idle();
  const late = lying();
  world.backend.script("unpublish", late.fault);
  await world.release("job");
  await world.idle();
  const from = world.backend.calls.length;
  world.backend.setSeats(g2);
  return { ...late, from };
};

const activeOn = async (workload: string, node: string): Promise<void> => {
  await world.claim(workload, node, ["data"]);
  await world.pass(2_000);
  expect(await world.states(workload)).toEqual(["ACTIVE"]);
};
const refusedOn = (node: string) =>
  expect(world.claim("again", node, ["data"])).rejects.toMatchObject({
    reason: "NODE_BARRED",
    message: expect.stringContaining("holdfast repair clear-bar data"),
  });

describe("a detach at a gate that does not answer", () => {
  test("[I2] BR1 BR2 is overtaken at another gate, and its pair is barred until the first gate is idle", async () => {
    const { arrive, from } = await frozenDetach();
    await world.pass(10_000);
    expect(await world.states("job")).toEqual(["RELEASED"]);
    expect(await bars()).toMatchObject([{ op: "detach", node: "n1", ...g1 }]);
    expect(callsSince(from).filter((call) => call.startsWith("unpublish"))).toEqual([
      expect.stringContaining(`via ${g2.via}`),
    ]);
    await refusedOn("n1");
    await activeOn("other", "n2");
    await world.release("other");

    world.backend.setSeats(g1, g2);
    await world.pass(5_000);
    expect(await bars()).toMatchObject([{ attempts: { lastError: { message: expect.stringContaining("is open") } } }]);
    await refusedOn("n1");
    arrive();
    await world.pass(60_000);
    expect(await bars()).toEqual([]);
    await activeOn("again", "n1");
  });

  test("BR3 is asked whether it is over only behind a commit, and the answer of the gate lifts the bar at once", async () => {
    const { arrive } = await frozenDetach();
    await world.pass(10_000);
    arrive();
    await world.idle();
    const [commits, from] = [world.records.commits(), world.backend.calls.length];
    world.backend.setSeats(g1, g2);
    await world.idle();
    expect(callsSince(from)).toEqual([expect.stringContaining(`quiesce ${g1.via}`)]);
    expect(world.records.commits() - commits).toBe(2);
    expect(await bars()).toEqual([]);
  });

  test("[I2] BR3 stands when another controller has asked meanwhile, whose repeat may be on its way", async () => {
    const { arrive } = await frozenDetach();
    await world.pass(10_000);
    const [bar] = await bars();
    arrive();
    const { unpublish } = world.backend;
    let repeats = 0;
    world.backend.unpublish = async (...call) => {
      const answer = await unpublish(...call);
      repeats += 1;
      if (repeats > 1) return answer;
      const asks: Decide = (v, at) => noChange(barAsked(v, bar?.opId ?? "", { ...at, opId: "another's question" }));
      await world.records.change({ namespace: "default", id: "data" }, asks);
      return answer;
    };
    world.backend.setSeats(seat("g1", "life-2"), g2);
    await world.idle();
    expect(await bars()).toMatchObject([{ opId: bar?.opId, asked: { opId: "another's question" } }]);
    await world.pass(60_000);
    expect(await bars()).toEqual([]);
    expect(repeats).toBe(2);
  });

  test("BR3 is repeated at the next life of the gate, which knows of no call", async () => {
    const { arrive } = await frozenDetach();
    await world.pass(10_000);
    arrive();
    const from = world.backend.calls.length;
    world.backend.setSeats(seat("g1", "life-2"), g2);
    await world.pass(2_000);
    expect(await bars()).toEqual([]);
    expect(callsSince(from)).toEqual([
      expect.stringMatching(/^late unpublish/),
      expect.stringMatching(/^unpublish .*g1/),
    ]);
  });

  test("BR3 of a life before the one that was overtaken is repeated: the life that is there knows nothing of its call", async () => {
    const { arrive } = await frozenDetach();
    world.backend.setSeats(seat("g1", "life-2"));
    world.backend.script("unpublish", ...Array.from({ length: 4 }, () => ({ kind: "dropped" }) as const));
    await world.pass(1_000);
    world.backend.setSeats(g2);
    await world.pass(10_000);
    expect(await bars()).toMatchObject([{ ...seat("g1", "life-2"), beyondGate: true }]);
    arrive();
    const from = world.backend.calls.length;
    world.backend.setSeats(seat("g1", "life-2"), g2);
    await world.pass(2_000);
    expect(callsSince(from).filter((call) => call.startsWith("quiesce"))).toEqual([]);
    expect(callsSince(from)).toContainEqual(expect.stringMatching(/^unpublish .*g1/));
    expect(await bars()).toEqual([]);
  });

  test("is not overtaken where no other gate is there, nor in a moment", async () => {
    const { from } = await frozenDetach();
    await world.pass(3_000);
    expect(await bars()).toEqual([]);
    world.backend.setSeats();
    await world.pass(60_000);
    expect(await bars()).toEqual([]);
    expect(callsSince(from)).toEqual([]);
    expect(await world.states("job")).toEqual(["DETACHING"]);
  });
});

describe("an attach at a gate that does not answer", () => {
  const frozenAttach = async () => {
    await world.makeVolume("data");
    const late = lying();
    world.backend.script("publish", late.fault);
    await world.claim("job", "n1", ["data"]);
    await world.idle();
    world.backend.setSeats(g2);
    await world.pass(10_000);
    return late;
  };

  test("BR1 goes on at another one, and what the late one makes behind its detach is taken away again", async () => {
    const { arrive } = await frozenAttach();
    expect(await world.states("job")).toEqual(["ACTIVE"]);
    expect(await bars()).toMatchObject([{ op: "attach", node: "n1", attachment: { nodeId: "n1" } }]);
    await world.release("job");
    await world.pass(2_000);
    expect(await world.states("job")).toEqual(["RELEASED"]);
    // Its mode has one node: no node at all may have the volume now.
    await refusedOn("n2");
    arrive();
    await world.idle();
    expect(world.backend.attachments()).toHaveLength(1);
    world.backend.setSeats(g1, g2);
    await world.pass(2_000);
    expect(await bars()).toEqual([]);
    expect(world.backend.attachments()).toEqual([]);
    expect((await world.volume("data")).attachments).toEqual({});
    await activeOn("again", "n2");
  });

  test("[I1] lets the claim of another node, which waits, be attached only behind the detach of what the late one made", async () => {
    const { arrive } = await frozenAttach();
    await world.release("job");
    await world.pass(2_000);
    await world.claim("next", "n2", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.pass(2_000);
    expect(await world.states("next")).toEqual(["QUEUED"]);
    arrive();
    await world.idle();
    const from = world.backend.calls.length;
    world.backend.setSeats(g1, g2);
    await world.pass(5_000);
    expect(callsSince(from)).toEqual([
      expect.stringContaining(`quiesce ${g1.via}`),
      expect.stringMatching(/^unpublish .*n1/),
      expect.stringMatching(/^publish .*n2/),
    ]);
    expect(await world.states("next")).toEqual(["ACTIVE"]);
  });

  test("BR3 is over for a claim that has the pair, and nothing is taken from it", async () => {
    const { arrive } = await frozenAttach();
    arrive();
    world.backend.setSeats(g1, g2);
    await world.pass(2_000);
    expect(await bars()).toEqual([]);
    expect(await world.states("job")).toEqual(["ACTIVE"]);
    expect(world.backend.attachments()).toHaveLength(1);
  });

  test("BR3 a next life of its gate repeats nothing for a pair that a claim has", async () => {
    const { arrive } = await frozenAttach();
    arrive();
    const from = world.backend.calls.length;
    world.backend.setSeats(seat("g1", "life-2"), g2);
    await world.pass(30_000);
    expect(callsSince(from).filter((call) => /^(un)?publish/.test(call))).toEqual([]);
    expect(await bars()).toHaveLength(1);
    await world.release("job");
    await world.pass(30_000);
    expect(await bars()).toEqual([]);
    expect(world.backend.attachments()).toEqual([]);
  });
});

test("a create at a gate that does not answer: the volume is there, and is not deleted before the late one is over", async () => {
  const late = lying();
  world.backend.script("create", late.fault);
  await world.commands.createVolume(volumeInput("data"), caller);
  await world.idle();
  world.backend.setSeats(g2);
  await world.pass(10_000);
  expect(await world.volume("data")).toMatchObject({ state: "AVAILABLE", bars: [{ op: "create", node: "" }] });
  await activeOn("job", "n1");
  await world.release("job");
  await world.pass(2_000);
  const gone = () => world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
  await expect(gone()).rejects.toMatchObject({ reason: "VOLUME_IN_USE" });
  late.arrive();
  world.backend.setSeats(g1, g2);
  await world.pass(2_000);
  await gone();
  await world.idle();
  expect(world.backend.volumes()).toEqual([]);
});

test("BR3 a create is repeated with its first words at the next life of its gate, whatever was changed since", async () => {
  const late = lying();
  world.backend.script("create", late.fault);
  await world.commands.createVolume(volumeInput("data", { mutableParameters: { tier: "gold" } }), caller);
  await world.idle();
  world.backend.setSeats(g2);
  await world.pass(10_000);
  late.arrive();
  const change = { namespace: "default", id: "data", requestId: "" };
  await world.commands.modifyVolume({ ...change, mutableParameters: { tier: "iron" } }, caller);
  await world.commands.expandVolume({ ...change, capacity: { required: 2_000_000, limit: 0 } }, caller);
  await world.pass(10_000);
  const asked = vi.spyOn(world.backend, "createVolume");
  world.backend.setSeats(seat("g1", "life-2"), g2);
  await world.pass(10_000);
  expect(asked.mock.calls.map(([{ capacity, mutableParameters }]) => ({ ...capacity, ...mutableParameters }))).toEqual([
    expect.objectContaining({ required: 1_000_000, tier: "gold" }),
  ]);
  expect(await bars()).toEqual([]);
});

test("BR2 an expand that the plugin makes for unused volumes alone keeps the volume from every node", async () => {
  await world.makeVolume("data");
  world.backend.setFacts({ expandsOnline: "no", expandsOffline: "yes" });
  const late = lying();
  world.backend.script("expand", late.fault);
  await world.commands.expandVolume(
    { namespace: "default", id: "data", capacity: { required: 2_000_000, limit: 0 }, requestId: "" },
    caller,
  );
  await world.idle();
  world.backend.setSeats(g2);
  await world.pass(10_000);
  expect(await bars()).toMatchObject([{ op: "expand", onlyUnused: true }]);
  await refusedOn("n1");
  late.arrive();
  world.backend.setSeats(g1, g2);
  await world.pass(10_000);
  expect(await bars()).toEqual([]);
  await activeOn("next", "n1");
});

describe("a modify at a gate that does not answer", () => {
  const frozenModify = async () => {
    await world.makeVolume("data");
    const late = lying();
    world.backend.script("modify", late.fault);
    const mutableParameters = { tier: "gold" };
    await world.commands.modifyVolume({ namespace: "default", id: "data", mutableParameters, requestId: "" }, caller);
    await world.idle();
    world.backend.setSeats(g2);
    await world.pass(10_000);
    expect(await bars()).toMatchObject([{ op: "modify", node: "", parameters: { tier: "gold" } }]);
    late.arrive();
  };
  const repeats = (from: number) => callsSince(from).filter((call) => call.startsWith("modify"));

  test("BR2 BR3 keeps the next one back, and is repeated word for word at the next life of its gate", async () => {
    await frozenModify();
    const from = world.backend.calls.length;
    const mutableParameters = { tier: "iron" };
    await world.commands.modifyVolume({ namespace: "default", id: "data", mutableParameters, requestId: "" }, caller);
    await world.pass(10_000);
    expect(repeats(from)).toEqual([]);
    world.backend.setSeats(seat("g1", "life-2"), g2);
    await world.pass(10_000);
    expect(await bars()).toEqual([]);
    expect(repeats(from)[0]).toMatch(/\{"tier":"gold"\} via node g1/);
    expect(Object.values(world.backend.parameters((await world.volume("data")).externalId))).toEqual(["iron"]);
  });

  test.each(["INTERNAL", "UNIMPLEMENTED"])("BR3 is over with whatever the next life answers: %s", async (code) => {
    await frozenModify();
    world.backend.script("modify", { kind: "refused", advice: "fail", code });
    world.backend.setSeats(seat("g1", "life-2"), g2);
    await world.pass(10_000);
    expect(await bars()).toEqual([]);
  });

  test("BR3 is not over with an answer that only its way gave", async () => {
    await frozenModify();
    world.backend.script("modify", { kind: "unknown", advice: "again", code: "UNAVAILABLE" });
    world.backend.setSeats(seat("g1", "life-2"), g2);
    await world.idle();
    expect(await bars()).toHaveLength(1);
    await world.pass(60_000);
    expect(await bars()).toEqual([]);
  });
});

test("an expand at a gate that does not answer: BR2 keeps the next one back, and is repeated for the same size", async () => {
  await world.makeVolume("data");
  const late = lying();
  world.backend.script("expand", late.fault);
  const grow = (required: number) =>
    world.commands.expandVolume(
      { namespace: "default", id: "data", capacity: { required, limit: 0 }, requestId: "" },
      caller,
    );
  await grow(2_000_000);
  await world.idle();
  world.backend.setSeats(g2);
  await world.pass(10_000);
  expect(await bars()).toMatchObject([{ op: "expand", node: "", size: { required: 2_000_000, limit: 0 } }]);
  late.arrive();
  const from = world.backend.calls.length;
  await grow(3_000_000);
  await world.pass(10_000);
  expect(callsSince(from).filter((call) => call.startsWith("expand"))).toEqual([]);
  world.backend.setSeats(seat("g1", "life-2"), g2);
  await world.pass(10_000);
  expect(await bars()).toEqual([]);
  expect(callsSince(from).filter((call) => call.startsWith("expand"))).toEqual([
    expect.stringMatching(/ 2000000 via node g1/),
    expect.stringMatching(/ 3000000 /),
  ]);
});

describe("ClearBar", () => {
  const dry = { reason: "ticket 4711", dryRun: true, confirm: "", requestId: "", evidence: "host g1 is scrapped" };
  const clear = (bar: string, asked: Partial<typeof dry> = {}) =>
    world.repair.clearBar({ namespace: "default", of: "volume", id: "data", bar, ...dry, ...asked }, caller);

  test("is a person's word for the end of the very call, stored with its audit record", async () => {
    await frozenDetach();
    await world.pass(10_000);
    const [bar] = await bars();
    const id = bar?.opId ?? "";
    const { items } = await world.repair.listStuck(
      { namespace: "", plugin: "", node: "", reasons: ["CALL_BARRED"] },
      { size: 5, after: undefined },
    );
    expect(items).toMatchObject([
      { state: "BARRED", node: "n1", blocked: { clearWith: expect.stringContaining(`clear-bar data ${id}`) } },
    ]);
    const explained = await world.commands.explainVolume({ namespace: "default", id: "data" });
    expect(explained.findings.join(" ")).toContain(g1.via);
    expect(explained.nextActions.join(" ")).toContain(`holdfast repair clear-bar data ${id} --namespace default`);
    await expect(clear("another")).rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
    await expect(clear("", { evidence: "" })).rejects.toMatchObject({ kind: "invalid" });
    const { confirmWith } = await clear(id);
    expect(confirmWith).toContain(`given to "${g1.via}" by controller c1/1, has ended`);
    expect(await bars()).toHaveLength(1);
    const { auditId } = await clear(id, { dryRun: false, confirm: confirmWith, requestId: "r1" });
    expect(await world.audit.get(auditId)).toMatchObject({ verb: "ClearBar", evidence: dry.evidence });
    expect(await bars()).toEqual([]);
    await activeOn("again", "n1");
  });
});
