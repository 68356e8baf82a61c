import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, capability, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import { foreignNoted } from "../../domain/attachment/foreign-hold.ts";
import { barRecord } from "../../domain/testing/record-fixtures.ts";
import type { FenceNodeInput } from "./node-model.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
  for (const id of ["data", "more"]) await world.makeVolume(id);
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const fence = (change: Partial<FenceNodeInput> = {}) =>
  world.nodeCommands.fenceNode(
    {
      ...{ name: "n1", reason: "host lost", dryRun: false, requestId: "", expectedNodeEpoch: 1 },
      evidence: { kind: "power-off", words: "the PDU shows 0 W, ticket 4711" },
      ...change,
    },
    caller,
  );
const onDetach = { evidence: { kind: "on-detach" } } as const;
const queue = { queue: { enabled: true, deadlineMs: undefined } };
const node = () => world.nodes.get("n1")?.record;

/** Its power is cut: nothing of it is mounted any more, and no controller has its link. */
const die = (name = "n1"): void => {
  world.agents.silence(name, true);
  world.agents.reboot(name);
  world.nodes.set(name, { linkLost: { at: 1 } }, "suspect");
};
/** The same machine speaks again, as one that registered. */
const speak = (): void => {
  world.agents.silence("n1", false);
  const record = node();
  if (record === undefined) throw new Error("no n1");
  const { linkLost: _back, ...rest } = record;
  world.nodes.remove("n1");
  world.nodes.set("n1", rest, "alive");
};
const settle = async (): Promise<void> => {
  for (let n = 0; n < 3; n += 1) {
    world.nodes.set("n1", {});
    await world.fences.idle();
    await world.idle();
  }
};
/** As a fence leaves the record that was there before the bar. */
const begun = (): void =>
  world.nodes.set("n1", {
    ...{ state: "FENCING", nodeEpoch: 2 },
    fence: { kind: "power-off", who: "test", evidence: "x", since: 1 },
  });
const profiled = () =>
  world.pluginRecords.change(plugin, (record) => ({
    ...record,
    profile: { ...world.pluginRecords.of(plugin), fence: "on-detach" },
  }));
const putBar = async (via: string, change: Partial<ReturnType<typeof barRecord>> = {}) => {
  const { attachments } = await world.volume("data");
  const attachment = attachments["n1"];
  if (attachment === undefined) throw new Error("data is not attached to n1");
  const bar = barRecord("n1", { via, attachment, gateEpoch: 1, since: 1, ...change });
  await world.records.change({ namespace: "default", id: "data" }, (volume, at) => ({
    volume: { ...volume, bars: [bar], updatedAt: at.now },
    ended: [],
    notes: [],
  }));
};

describe("a fence is refused, and nothing is written,", () => {
  const refused = async (change: Partial<FenceNodeInput>, expected: Record<string, unknown>) => {
    const before = node();
    await expect(fence(change)).rejects.toMatchObject(expected);
    expect(node()).toEqual(before);
    expect(world.nodes.audited).toEqual([]);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  };
  beforeEach(async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
  });

  it("of a node whose agent speaks, or may speak with another controller", async () => {
    await refused({}, { reason: "NODE_NOT_SUSPECT", message: expect.stringContaining("is alive") });
    world.nodes.set("n1", {}, "unknown");
    await refused({}, { reason: "NODE_NOT_SUSPECT", message: expect.stringContaining("another controller may have") });
  });

  it("without evidence, with the ways to give it", async () => {
    die();
    await refused({ evidence: undefined }, { reason: "EVIDENCE_REQUIRED", metadata: { node: "n1" } });
    await refused(
      { evidence: { kind: "power-off", words: "" } },
      { reason: "EVIDENCE_REQUIRED", message: expect.stringContaining("holdfast node fence n1 --powered-off") },
    );
  });

  it("for a plugin whose profile does not say that detaching fences, or that is never asked to detach", async () => {
    die();
    await refused(onDetach, { reason: "EVIDENCE_REQUIRED", metadata: { node: "n1", plugin } });
    await profiled();
    await world.records.change({ namespace: "default", id: "data" }, (volume) => {
      const attachment = volume.attachments["n1"];
      if (attachment === undefined) throw new Error("not attached");
      const attachments = { n1: { ...attachment, needsCalls: false } };
      return { volume: { ...volume, attachments }, ended: [], notes: [] };
    });
    await refused(onDetach, { reason: "EVIDENCE_REQUIRED", message: expect.stringContaining("never asked to detach") });
  });

  it("of another epoch than the node has", async () => {
    die();
    await refused({ expectedNodeEpoch: 2 }, { reason: "REVISION_CONFLICT", metadata: { node: "n1", revision: "1" } });
  });

  it("of claims that were granted to another machine of that name", async () => {
    die();
    world.nodes.set("n1", { nodeEpoch: 2, speaksFrom: 2 });
    await refused({ expectedNodeEpoch: 2 }, { reason: "EVIDENCE_REQUIRED", message: /another machine that had this/ });
  });

  it("[I1] of a hold that another machine of that name has told", async () => {
    const record = node() ?? expect.fail();
    const hold = { claimUid: "lost", workload: "w", alias: "data", epoch: { gen: 1, ctr: 1 } };
    const copy = { ...record, bootId: "boot of the copy" };
    await world.records.change({ namespace: "default", id: "data" }, (v) => foreignNoted(v, copy, [hold], 1));
    die();
    await refused(
      {},
      { reason: "EVIDENCE_REQUIRED", message: /boot of the copy.* the evidence is of another machine/ },
    );
  });

  it("[I8] in a store that is not vetted", async () => {
    die();
    world.gate.set(false);
    await refused({}, { reason: "STORE_UNVETTED" });
  });

  it("with all that is wrong with the request", async () => {
    const wrong = { name: "", reason: "", expectedNodeEpoch: 0 };
    await refused(wrong, {
      violations: [{ field: "name" }, { field: "reason" }, { field: "expected_node_epoch" }],
    });
    await refused(
      { evidence: { kind: "power-off", words: "a\nb" } },
      { violations: [{ field: "power_off_attestation" }] },
    );
    await expect(fence({ name: "n9" })).rejects.toMatchObject({ reason: "NODE_NOT_FOUND" });
  });
});

describe("a fence", () => {
  it("says in a dry run what it would do, and does nothing", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const { uid = "" } = Object.values((await world.volume("data")).claims)[0] ?? {};
    die();
    const before = node();
    const { effects, risks } = await fence({ dryRun: true, expectedNodeEpoch: 0 });
    expect(effects).toEqual([
      "node n1 (machine machine-n1) has epoch 2, and no permit for an earlier one counts",
      `claim ${uid} of web on volume default/data (ACTIVE) ends FENCED`,
      "volume default/data is detached from the node",
      "an agent that comes back as node n1 unmounts all that it holds before the node is READY again",
    ]);
    expect(risks).toEqual([expect.stringContaining("if machine machine-n1 runs")]);
    await settle();
    expect(node()).toEqual(before);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("[I1] [I2] moves nothing before it, then ends every claim FENCED, detaches, and grants to who waits", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.claim("db", "n1", ["more"]);
    await world.idle();
    await world.claim("web-2", "n2", ["data"], queue);
    await world.claim("db-2", "n1", ["data"], queue);
    die();
    await world.pass(300_000, 10_000);
    await settle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(await world.states("web-2")).toEqual(["QUEUED"]);
    expect(world.backend.calls.filter((call) => call.startsWith("unpublish"))).toEqual([]);

    const { externalId } = await world.volume("data");
    const view = await fence({ requestId: "r1" });
    expect(view.node.record).toMatchObject({
      state: "FENCING",
      nodeEpoch: 2,
      fence: { kind: "power-off", who: "test", evidence: "the PDU shows 0 W, ticket 4711" },
    });
    await settle();
    for (const workload of ["web", "db", "db-2"]) expect(await world.states(workload)).toEqual(["FENCED"]);
    expect(await world.states("web-2")).toEqual(["ACTIVE"]);
    expect(world.agents.mounts()).toEqual(["default/data@n2"]);
    const moves = world.backend.calls.filter((call) => /^(un)?publish/.test(call) && call.includes(externalId));
    expect(moves).toEqual([`publish ${externalId}@n1`, `unpublish ${externalId}@n1`, `publish ${externalId}@n2`]);
    expect(node()).toMatchObject({ state: "QUARANTINED", nodeEpoch: 2 });
    const [web] = await world.commands.selectClaims({
      namespace: "default",
      workload: "web",
      aliases: [],
      claimUids: [],
    });
    expect(web?.claim.failure).toMatchObject({
      reason: "NODE_FENCED",
      message: expect.stringMatching(/node n1 was fenced by test at .* \(power-off\): the PDU shows 0 W/),
    });
    const entry = {
      ...{ verb: "FenceNode", who: "test", reason: "host lost", evidence: "the PDU shows 0 W, ticket 4711" },
      ...{ requestId: "r1", subject: { node: "n1" } },
    };
    expect(world.nodes.audited).toMatchObject([{ entry }]);

    // Asked again it tells how far it is, by whatever words, and the epoch stays.
    for (const again of [{ requestId: "r1" }, { expectedNodeEpoch: 2 }, { expectedNodeEpoch: 7 }])
      expect((await fence(again)).effects[0]).toMatch(
        /^node n1 is QUARANTINED since .*, on the word of test, with epoch 2/,
      );
    expect(node()?.nodeEpoch).toBe(2);
  });

  it("on-detach: [I1] the claim holds its volume until the detach is done, since the detach is the fence", async () => {
    await profiled();
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await world.claim("web-2", "n2", ["data"], queue);
    // The machine may run on; the backend is what cuts it off.
    world.agents.silence("n1", true);
    world.nodes.set("n1", { linkLost: { at: 1 } }, "suspect");
    world.backend.setFacts({ ready: false, reason: "its socket is gone" });
    expect((await fence(onDetach)).node.record.fence).toMatchObject({ kind: "on-detach", evidence: /csi\.example/ });
    await settle();
    expect(await world.states("web")).toEqual(["DETACHING"]);
    expect(await world.states("web-2")).toEqual(["QUEUED"]);
    expect(node()?.state).toBe("FENCING");
    expect(world.fences.waitsFor("n1")).toContain("default/data");
    world.agents.reboot("n1");
    world.backend.setFacts({ ready: true, reason: "" });
    await world.pass(120_000, 10_000);
    await settle();
    expect(await world.states("web")).toEqual(["FENCED"]);
    expect(await world.states("web-2")).toEqual(["ACTIVE"]);
  });

  it("ends a claim in whatever state it is: that is attached, that is released, that is detached", async () => {
    for (const id of ["attaching", "releasing", "detaching"]) await world.makeVolume(id);
    await world.claim("r", "n1", ["releasing"]);
    await world.claim("d", "n1", ["detaching"]);
    await world.idle();
    world.backend.script("unpublish", { kind: "unknown" } as never);
    await world.release("d");
    await world.idle();
    world.backend.script("publish", { kind: "unknown" } as never);
    await world.claim("a", "n1", ["attaching"]);
    await world.idle();
    die();
    await world.release("r");
    await world.idle();
    const states = async () => [await world.states("a"), await world.states("r"), await world.states("d")].flat();
    expect(await states()).toEqual(["ATTACHING", "RELEASING", "DETACHING"]);
    await fence();
    await settle();
    await world.pass(120_000, 10_000);
    await settle();
    expect(await states()).toEqual(["FENCED", "FENCED", "FENCED"]);
    expect(world.backend.attachments()).toEqual([]);
    expect(node()?.state).toBe("QUARANTINED");
  });

  it("of a plugin without attach ends its claims at once", async () => {
    world.backend.setFacts({ attaches: "no" });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await world.claim("web-2", "n2", ["data"], queue);
    die();
    await fence();
    await settle();
    expect(await world.states("web")).toEqual(["FENCED"]);
    expect(await world.states("web-2")).toEqual(["ACTIVE"]);
    expect(world.backend.calls.filter((call) => /publish/.test(call))).toEqual([]);
  });

  it("frees what a machine that is off held beside the records", async () => {
    const { uid, externalId } = await world.volume("data");
    const hold = { node: "n1", claimUid: "lost", workload: "w", alias: "data", epoch: { gen: 1, ctr: 1 }, since: 1 };
    await world.records.change({ namespace: "default", id: "data" }, (volume) => ({
      volume: { ...volume, foreign: [hold] },
      ended: [],
      notes: [],
    }));
    expect(uid + externalId).not.toBe("");
    die();
    await profiled();
    await expect(fence(onDetach)).rejects.toMatchObject({ reason: "EVIDENCE_REQUIRED", message: /does not know/ });
    await fence();
    await settle();
    expect((await world.volume("data")).foreign).toBeUndefined();
    expect(node()?.state).toBe("QUARANTINED");
  });
});

describe("a bar on a pair", () => {
  beforeEach(async () => {
    await world.makeVolume("shared", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
  });

  it("of another machine's gate refuses the fence, with volume and bar", async () => {
    await putBar(`node n2: ${plugin}`);
    die();
    await expect(fence()).rejects.toMatchObject({
      reason: "NODE_BARRED",
      metadata: { namespace: "default", volume: "data", node: "n1" },
      message: expect.stringContaining("clear-bar"),
    });
    expect(node()?.state).toBe("READY");
  });

  it("[L4] of a gate of that machine is lifted by power-off evidence before a claim is forced, and not by a detach that fences", async () => {
    await putBar(`node n1: ${plugin}`);
    die();
    await profiled();
    await expect(fence(onDetach)).rejects.toMatchObject({ reason: "NODE_BARRED" });
    const { effects } = await fence();
    expect(effects).toContainEqual("bar late-n1 of volume default/data is lifted: its call was given to this machine");
    // Nor by a store that may show a fence of long ago.
    world.gate.set(false);
    await settle();
    expect((await world.volume("data")).bars).toHaveLength(1);
    world.gate.set(true);
    await settle();
    await settle();
    expect((await world.volume("data")).bars).toEqual([]);
    expect(await world.states("web")).toEqual(["FENCED"]);
    expect(world.log.lines.filter(({ message }) => message === "a bar is lifted")).toMatchObject([
      { fields: { how: "its host was fenced" } },
    ]);
  });

  it("of a machine that had the name before is not lifted", async () => {
    await putBar(`node n1: ${plugin}`);
    die();
    world.nodes.set("n1", { nodeEpoch: 2, speaksFrom: 2 });
    await world.records.change({ namespace: "default", id: "data" }, (volume) => ({
      volume: {
        ...volume,
        claims: Object.fromEntries(Object.values(volume.claims).map((c) => [c.uid, { ...c, nodeEpoch: 2 }])),
      },
      ended: [],
      notes: [],
    }));
    await expect(fence({ expectedNodeEpoch: 2 })).rejects.toMatchObject({ reason: "NODE_BARRED" });
  });

  it("that comes after the fence is waited for, and other volumes go on", async () => {
    await world.claim("db", "n1", ["more"]);
    await world.idle();
    die();
    await putBar(`node n2: ${plugin}`, { gate: "somebody" });
    begun();
    await settle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(await world.states("db")).toEqual(["FENCED"]);
    expect(world.fences.waitsFor("n1")).toContain("default/data, behind a bar");
    expect(node()?.state).toBe("FENCING");
  });
});

describe("a fenced node that speaks again", () => {
  beforeEach(async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
  });

  it("[F4] is READY only once its agent shows that nothing is left, and then takes claims", async () => {
    die();
    await fence();
    await settle();
    expect(node()?.state).toBe("QUARANTINED");
    expect(world.fences.waitsFor("n1")).toBe("its agent to come back");
    world.agents.script("release", { kind: "pending", blocked: true }, { kind: "pending", blocked: true });
    world.agents.leaveMount("n1", "/mnt/nobody");
    speak();
    await world.fences.idle();
    expect(node()?.state).toBe("QUARANTINED");
    expect(world.fences.waitsFor("n1")).toBe("its agent to unmount 1 volumes, the first: default/data");
    await expect(world.claim("next", "n1", ["more"])).rejects.toMatchObject({ reason: "NODE_NOT_READY" });
    await world.pass(60_000, 5_000);
    await settle();
    // The controller's own order had it unmounted; what no journal explains is left.
    expect(world.agents.heldOn("n1")).toEqual([]);
    expect(world.fences.waitsFor("n1")).toContain("/mnt/nobody");
    expect(node()?.state).toBe("QUARANTINED");
    world.agents.inventory = ((inventory) => async (of, signal) => ({ ...(await inventory(of, signal)), orphans: [] }))(
      world.agents.inventory,
    ) as typeof world.agents.inventory;
    await settle();
    expect(node()).toMatchObject({ state: "READY", nodeEpoch: 2 });
    expect(node()?.fence).toBeUndefined();
    await world.claim("next", "n1", ["more"]);
    await world.idle();
    expect(await world.states("next")).toEqual(["ACTIVE"]);
  });

  it("is not READY on the inventory of an agent that has not heard of the epoch", async () => {
    die();
    await fence();
    await settle();
    world.agents.loseJournal("n1");
    const { inventory } = world.agents;
    world.agents.inventory = (async (of, signal) => ({
      ...(await inventory(of, signal)),
      nodeEpoch: 1,
    })) as typeof world.agents.inventory;
    speak();
    await settle();
    expect(node()?.state).toBe("QUARANTINED");
    expect(world.fences.waitsFor("n1")).toBe("its agent to hear of incarnation 2");
  });

  it("[I2] before its claims were forced: they end by its own release, with the volume unmounted first", async () => {
    die();
    await putBar(`node n2: ${plugin}`, { gate: "somebody" });
    const bars = (await world.volume("data")).bars;
    expect(bars).toHaveLength(1);
    begun();
    await world.fences.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    speak();
    await settle();
    await world.pass(30_000, 5_000);
    expect(await world.states("web")).toEqual(["FENCED"]);
    await settle();
    const released = world.agents.calls.findIndex((call) => call.startsWith("release default/data"));
    expect(released).toBeGreaterThan(0);
  });

  it("[I1] and falls silent again is forced on new evidence alone: it was not off", async () => {
    die();
    await putBar(`node n2: ${plugin}`, { gate: "somebody" });
    begun();
    await settle();
    world.nodes.set("n1", { fence: { kind: "power-off", who: "test", evidence: "x", since: 1, spoke: true } });
    await world.records.change({ namespace: "default", id: "data" }, (volume) => ({
      volume: { ...volume, bars: [] },
      ended: [],
      notes: [],
    }));
    await settle();
    await world.pass(60_000, 10_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.fences.waitsFor("n1")).toContain("its agent, or new evidence (holdfast node fence)");
    expect((await fence({ expectedNodeEpoch: 2 })).effects[0]).toContain("has epoch 3");
    await settle();
    expect(await world.states("web")).toEqual(["FENCED"]);
    expect(node()).toMatchObject({ state: "QUARANTINED", nodeEpoch: 3 });
  });
});
