import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { eventMessage } from "../../api/event/convert-event.ts";
import type { Permit, PublishAnswer } from "../../domain/claim/permit.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const minute = 60_000;
const other = { machineId: "machine-new", journalUid: "journal-new", instance: "instance-new", nodeEpoch: 2 };
const unpublishes = () => world.backend.calls.filter((call) => call.startsWith("unpublish "));

describe("a node that boots, or loses its journal, between the answer of its agent and the commit of it", () => {
  it.each([
    ["boots", { bootId: "boot-2", instance: "instance-2" }],
    ["loses its journal", { journalUid: "journal-2", instance: "instance-2", nodeEpoch: 2 }],
  ])("%s: the claim does not stay ACTIVE without a mount", async (_, life) => {
    const { publish } = world.agents;
    let times = 0;
    world.agents.publish = async (...args) => {
      const answer = await publish(...args);
      times += 1;
      if (times > 1) return answer;
      world.agents.reboot("n1");
      world.nodes.set("n1", life);
      // The new life is followed up while the record still says OFFERED.
      for (let n = 0; n < 20; n += 1) await new Promise((resolve) => setImmediate(resolve));
      return answer;
    };
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await world.pass(5_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    expect(times).toBe(2);
  });
});

describe("a claim that was granted to an earlier life of its node, beside the admission of the present life", () => {
  const earlier = async () => {
    const [view] = await world.claim("web", "n1", ["data"]);
    await world.idle();
    const sent = world.agents.calls.filter((call) => /^(publish|release) /.test(call)).length;
    world.nodes.set("n1", { nodeEpoch: 2, speaksFrom: 2, instance: "instance-2", bootId: "boot-2" });
    const since = () => world.agents.calls.filter((call) => /^(publish|release) /.test(call)).length - sent;
    return { uid: view?.claim.uid ?? "", since };
  };

  it("[I1] [I2] gets no permit and no release there until a person says which life is the node", async () => {
    const { uid, since } = await earlier();
    await world.pass(minute);
    await world.release("web");
    await world.pass(2 * minute);
    expect(since()).toBe(0);
    expect(unpublishes()).toEqual([]);
    const claim = (await world.volume("data")).claims[uid];
    expect(claim).toMatchObject({ state: "RELEASING", blocked: { reason: "NODE_PENDING" } });
    expect(claim?.blocked?.clearWith).toContain("holdfast node admit n1");
    world.nodes.set("n1", { speaksFrom: 0 });
    await world.pass(2 * minute);
    expect((await world.volume("data")).claims[uid]).toBeUndefined();
  });
});

describe("another machine under the name of a node that went silent", () => {
  const replaced = async () => {
    const [view] = await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.nodes.set("n1", other);
    await world.idle();
    return async () => (await world.volume("data")).claims[view?.claim.uid ?? ""];
  };

  it("[I2] [I7] cannot release for the old one: nothing is detached, and what is missing is said", async () => {
    const claim = await replaced();
    await world.release("web");
    await world.pass(2 * minute);
    expect(unpublishes()).toEqual([]);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    expect(await claim()).toMatchObject({
      state: "RELEASING",
      blocked: {
        reason: "NODE_REPLACED",
        missingProof: expect.stringContaining("machine-n1"),
        clearWith: expect.stringContaining("holdfast repair abandon-claim data web"),
      },
    });
    // Only the machine that mounted it can say that it is gone.
    world.nodes.set("n1", { machineId: "machine-n1", journalUid: "journal-n1-1", nodeEpoch: 3 });
    await world.pass(2 * minute);
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(world.backend.attachments()).toEqual([]);
  });

  it("[I1] gets neither the permit of a claim of the old one nor a place on its attachment", async () => {
    const claim = await replaced();
    const pushed = world.agents.calls.filter((call) => call.startsWith("publish ")).length;
    await world.pass(2 * minute);
    expect(world.agents.calls.filter((call) => call.startsWith("publish "))).toHaveLength(pushed);
    expect(await claim()).toMatchObject({ state: "ACTIVE", blocked: { reason: "NODE_REPLACED" } });
    await world.makeVolume("fresh");
    await world.claim("db", "n1", ["fresh"]);
    await world.idle();
    expect(await world.states("db")).toEqual(["ACTIVE"]);
  });
});

it("[I6] a host that was made anew from an image, and shows that it is the very one, goes on with what it was given under its machine id of before", async () => {
  await world.claim("web", "n1", ["data"]);
  await world.idle();
  world.agents.reboot("n1");
  world.agents.loseJournal("n1");
  world.nodes.set("n1", { ...other, machinesBefore: ["machine-n1"] });
  await world.idle();
  expect(await world.states("web")).toEqual(["ACTIVE"]);
  expect(world.agents.mounts()).toEqual(["default/data@n1"]);
  await world.release("web");
  await world.idle();
  expect(await world.states("web")).toEqual(["RELEASED"]);
});

describe("a node that is lost", () => {
  it("[I6] [I7] blocks what is to be released there, with the proof that is missing and the way out, until it is back", async () => {
    const [view] = await world.claim("web", "n1", ["data"]);
    await world.idle();
    const uid = view?.claim.uid ?? "";
    world.agents.silence("n1", true);
    await world.release("web");
    await world.pass(2_000);
    const claim = async () => (await world.volume("data")).claims[uid];
    expect((await claim())?.blocked, "an answer that was lost is no lost node").toBeUndefined();
    world.nodes.set("n1", {}, "suspect");
    await world.pass(2 * minute);
    expect(await claim()).toMatchObject({
      state: "RELEASING",
      blocked: {
        reason: "NODE_SILENT",
        missingProof: "that node n1, whose agent is silent, no longer mounts default/data",
        clearWith: expect.stringContaining(`holdfast repair abandon-claim data web ${uid} --namespace default`),
      },
    });
    const { nextActions } = await world.commands.explainVolume({ namespace: "default", id: "data" });
    expect(nextActions.join("\n")).toContain("holdfast repair abandon-claim data web");
    expect(unpublishes()).toEqual([]);
    world.agents.silence("n1", false);
    world.nodes.set("n1", {}, "alive");
    await world.idle();
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(world.backend.attachments()).toEqual([]);
  });
});

describe("an agent that cannot go on by itself", () => {
  it("[I6] blocks its claim with its own reason and remedy, until it can", async () => {
    const answer: PublishAnswer = {
      kind: "uncertain",
      reason: "MOUNT_NOT_SEEN",
      message: "published and not seen",
      blocked: { reason: "MOUNT_NOT_SEEN", missingProof: "a mount at the target", clearWith: "share the propagation" },
    };
    const { publish } = world.agents;
    world.agents.publish = async () => answer;
    const [view] = await world.claim("web", "n1", ["data"]);
    await world.pass(minute);
    const claim = (await world.volume("data")).claims[view?.claim.uid ?? ""];
    expect(claim).toMatchObject({
      state: "OFFERED",
      blocked: { ...answer.blocked, message: "published and not seen", since: view?.claim.createdAt },
    });
    world.agents.publish = publish;
    await world.pass(2 * minute);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });
});

describe("a release that the agent cannot end", () => {
  const block = { reason: "STILL_MOUNTED", missingProof: "that /m/1 is no mount point", clearWith: "umount /m/1" };
  const blockedWith = async (fault: Parameters<World["agents"]["script"]>[1]) => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.agents.chance((method) => (method === "release" ? fault : undefined));
    await world.release("web");
    await world.idle();
    return Object.values((await world.volume("data")).claims)[0]?.blocked;
  };

  it("has the reason, the proof and the cure of the agent, unchanged", async () => {
    expect(await blockedWith({ kind: "pending", blocked: true, block })).toMatchObject(block);
    const { nextActions } = await world.commands.explainVolume({ namespace: "default", id: "data" });
    expect(nextActions).toEqual([block.clearWith]);
  });

  it("of an earlier version keeps its reason, and its cure is the message", async () => {
    const blocked = await blockedWith({ kind: "pending", blocked: true, block: "none" });
    expect(blocked).toMatchObject({
      reason: "MOUNT_HELD",
      clearWith: expect.stringContaining("what the message says"),
    });
  });

  it("D2: watchers hear of what it unmounted itself", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const head = await world.store.head();
    world.agents.script("release", { kind: "unmounted", paths: ["/m/1"] });
    await world.release("web");
    await world.idle();
    expect(await world.states("web")).toEqual(["RELEASED"]);
    for await (const event of world.store.watch(head, AbortSignal.timeout(5_000))) {
      const { reason, message } = eventMessage(event, "");
      if (reason !== "CLAIM_UNMOUNTED") continue;
      expect(message).toContain("the agent unmounted /m/1 of claim data of web");
      return;
    }
    expect.unreachable("the watch ended without it");
  });
});

describe("the device of a block volume", () => {
  const MB = 1_000_000;
  const said = async (from: string, workload: string) => {
    const told: string[] = [];
    for await (const event of world.store.watch(from, AbortSignal.timeout(5_000))) {
      const { reason, message, severity } = eventMessage(event, "");
      if (reason === "CLAIM_DEVICE_SMALLER") told.push(`${severity} ${message}`);
      if (event.body.includes("RELEASED") && event.body.includes(workload)) return told;
    }
    return expect.unreachable("the watch ended without the release");
  };
  const answering = (
    bytes: number | undefined,
    before: (permit: Permit) => Promise<unknown> = async () => undefined,
  ) => {
    const { publish } = world.agents;
    world.agents.publish = async (node, permit, options) => {
      const answer = await publish(node, permit, options);
      await before(permit);
      if (answer.kind !== "published") return answer;
      const publication = { ...answer.publication, device: { major: 7, minor: 3 } };
      return { ...answer, publication, ...(bytes === undefined ? {} : { deviceBytes: bytes }) };
    };
  };

  it.each([
    ["smaller", MB - 1, ["its device has 999999 bytes, and 1000000 were asked for"]],
    ["as big", MB, []],
    ["bigger", MB + 1, []],
    ["of a size that an agent of an earlier version does not tell", undefined, []],
  ])("is measured against what its permit was made for: %s", async (_, bytes, words) => {
    answering(bytes);
    const head = await world.store.head();
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    const { findings } = await world.commands.explainVolume({ namespace: "default", id: "data" });
    expect(findings.filter((line) => line.includes("asked for"))).toEqual(
      words.map((word) => expect.stringContaining(`workload web on node n1: ${word}`)),
    );
    await world.release("web");
    await world.idle();
    const told = await said(head, "web");
    expect(told).toEqual(words.map((word) => expect.stringContaining(word)));
  });

  it("is not short for what was asked for after its permit was made", async () => {
    answering(MB, ({ volume }) =>
      world.records.change(volume, (v) => ({
        volume: { ...v, capacity: { ...v.capacity, required: 3 * MB, actual: 3 * MB } },
        ended: [],
        notes: [],
      })),
    );
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const [claim] = Object.values((await world.volume("data")).claims);
    expect(claim).toMatchObject({ state: "ACTIVE", publication: { device: { size: { bytes: MB, wanted: MB } } } });
  });
});
