import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { foreignAbandoned } from "../../domain/attachment/foreign-hold.ts";
import { noChange } from "../../domain/change.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const active = async (): Promise<string> => {
  const [view] = await world.claim("web", "n1", ["data"]);
  await world.idle();
  return view?.claim.uid ?? "";
};

const publishes = () => world.agents.calls.filter((c) => c.startsWith("publish"));

describe("an agent that comes back", () => {
  it("after a reboot gets the same permit again, under the same epoch", async () => {
    const uid = await active();
    world.agents.reboot("n1");
    expect(world.agents.mounts()).toEqual([]);
    world.nodes.set("n1", { bootId: "boot-2", instance: "instance-2" });
    await world.idle();
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    expect(publishes()).toEqual([`publish default/data ${uid} 1.1 on n1`, `publish default/data ${uid} 1.1 on n1`]);
    const claim = (await world.volume("data")).claims[uid];
    expect(claim?.state).toBe("ACTIVE");
    expect(claim?.degradedSince).toBeUndefined();
    expect(claim?.publication?.bootId).toBe("boot-2");
  });

  it("is noticed although no controller ran while it rebooted", async () => {
    await active();
    world.kill();
    world.agents.reboot("n1");
    world.nodes.set("n1", { bootId: "boot-2", instance: "instance-2" });
    await world.restart();
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
  });

  it("shows a lost publication as degraded until it is there again", async () => {
    const uid = await active();
    world.agents.reboot("n1");
    world.agents.script("publish", { kind: "dropped" });
    world.nodes.set("n1", { bootId: "boot-2", instance: "instance-2" });
    await world.idle();
    const claim = (await world.volume("data")).claims[uid];
    expect(claim).toMatchObject({ state: "ACTIVE", attempts: { count: 1 } });
    expect(claim?.degradedSince).toBeDefined();
    await world.pass(5_000);
    expect((await world.volume("data")).claims[uid]?.degradedSince).toBeUndefined();
  });

  it("without its journal is offered what it should hold", async () => {
    await active();
    world.agents.loseJournal("n1");
    world.nodes.set("n1", { instance: "instance-2" });
    await world.idle();
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    expect(publishes()).toHaveLength(2);
  });

  it("is compared beside a record that is damaged, and lets go of nothing of that one", async () => {
    await active();
    const ref = { kind: "volume", key: "default/data" } as const;
    const places = { indexes: [{ index: "claim-node", value: "n1" }], due: [] };
    const write = { ref, expectedRev: (await world.store.get(ref))?.rev ?? 0, body: "{", ...places };
    await world.store.commit({ opId: "damage", writes: [write], events: [], requiresVetted: false });
    world.records.forgetAll();
    world.nodes.set("n1", { instance: "instance-2" });
    await world.idle();
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    expect(world.agents.calls.filter((call) => call.startsWith("release"))).toEqual([]);
    expect(world.log.lines.filter(({ message }) => String(message).includes("inventory"))).toEqual([]);
  });

  /** A permit of the past reached an agent that had lost the journal of its release. */
  const heldTooLong = async (): Promise<void> => {
    const uid = await active();
    const volume = await world.volume("data");
    const claim = volume.claims[uid];
    const node = world.nodes.get("n1");
    if (claim?.epoch === undefined || node === undefined) throw new Error("no claim");
    await world.release("web");
    await world.idle();
    const attachment = volume.attachments["n1"];
    if (attachment === undefined) throw new Error("no attachment");
    world.backend.attach(volume.externalId, "n1");
    world.agents.loseJournal("n1");
    world.agents.forgetReleases();
    const permit = { volume, claim, attachment, nodeEpoch: 1, epoch: claim.epoch, oldestLiveEpoch: claim.epoch };
    await world.agents.publish(node.record, permit, {
      signal: new AbortController().signal,
      attempt: 1,
      vetting: world.gate.state().vetting,
    });
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
  };

  it("with a permit whose claim is over is told to let go", async () => {
    await heldTooLong();
    world.gate.set(false);
    world.nodes.set("n1", { instance: "instance-2" });
    await world.idle();
    expect(world.agents.mounts(), "not while the store is unvetted").toEqual(["default/data@n1"]);
    world.gate.set(true);
    await world.idle();
    expect(world.agents.mounts()).toEqual([]);
  });

  it("[I5] with a permit whose claim is over is told again until it has let go, for no record owes it", async () => {
    await heldTooLong();
    const held = { kind: "pending", blocked: true } as const;
    const told = () => world.agents.calls.filter((c) => c.startsWith("release ")).length;
    const before = told();
    world.agents.script("release", held, held, { kind: "dropped" });
    world.nodes.set("n1", { instance: "instance-2" });
    await world.idle();
    expect(world.agents.mounts(), "something uses it").toEqual(["default/data@n1"]);
    await world.pass(10 * 60_000);
    expect(world.agents.mounts()).toEqual([]);
    expect(told() - before).toBe(4);
    const asked = () => world.agents.calls.filter((c) => c === "inventory n1").length;
    const last = asked();
    await world.pass(10 * 60_000);
    expect(asked(), "and then it is left alone").toBe(last);
  });

  it("[I6] of a machine whose snapshot was resumed is compared when its stream begins, though the process is the same and no silence was seen", async () => {
    await heldTooLong();
    world.nodes.set("n1", {});
    await world.idle();
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    world.reconciler.linked("n1");
    await world.idle();
    expect(world.agents.mounts()).toEqual([]);
  });

  it("and does not tell what it holds for long is asked until it does", async () => {
    await heldTooLong();
    world.agents.silence("n1", true);
    world.nodes.set("n1", { instance: "instance-2" });
    for (let n = 0; n < 10; n += 1) await world.clock.advance(60_000);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    world.agents.silence("n1", false);
    await world.clock.advance(60_000);
    await world.idle();
    expect(world.agents.mounts()).toEqual([]);
  });

  it("[I8] with a permit of a claim that its record has not granted yet keeps it: the record may be the older one", async () => {
    await world.claim("before", "n2", ["data"]);
    await world.idle();
    const attachment = (await world.volume("data")).attachments["n2"];
    await world.release("before");
    await world.idle();
    // Drained, so that nothing is granted there now; once it was, by a store that has lost it.
    world.nodes.set("n1", { drain: { since: 0, reason: "", mode: "wait" } });
    const [waiting] = await world.claim("web", "n1", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.idle();
    const volume = await world.volume("data");
    const claim = volume.claims[waiting?.claim.uid ?? ""];
    const node = world.nodes.get("n1");
    if (claim === undefined || attachment === undefined || node === undefined) throw new Error("no claim");
    expect(claim.state).toBe("QUEUED");
    world.backend.attach(volume.externalId, "n1");
    const epoch = { gen: 1, ctr: 1 };
    const permit = { volume, claim, attachment, nodeEpoch: 1, epoch, oldestLiveEpoch: epoch };
    await world.agents.publish(node.record, permit, {
      signal: new AbortController().signal,
      attempt: 1,
      vetting: world.gate.state().vetting,
    });
    world.nodes.set("n1", { instance: "instance-2" });
    await world.idle();
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
  });

  it("with a permit that the store does not know of keeps it: a store may forget, a mount does not", async () => {
    const volume = await world.volume("data");
    const uid = await active();
    const now = await world.volume("data");
    const claim = now.claims[uid];
    const attachment = now.attachments["n1"];
    const node = world.nodes.get("n1");
    if (claim === undefined || attachment === undefined || node === undefined) throw new Error("no claim");
    const unknown = { ...volume, id: "lost", uid: "uid-lost" };
    const permit = {
      volume: unknown,
      claim: { ...claim, uid: "claim-lost" },
      attachment,
      nodeEpoch: 1,
      epoch: { gen: 1, ctr: 9 },
      oldestLiveEpoch: { gen: 1, ctr: 9 },
    };
    await world.agents.publish(node.record, permit, {
      signal: new AbortController().signal,
      attempt: 1,
      vetting: world.gate.state().vetting,
    });
    world.nodes.set("n1", { instance: "instance-2" });
    await world.idle();
    expect([...world.agents.heldOn("n1")].sort()).toEqual([uid, "claim-lost"].sort());
  });

  it("[I1] with a permit whose epoch the store has given again keeps it, and its volume is barred until a person gives it up", async () => {
    const uid = await active();
    const volume = await world.volume("data");
    const [claim, attachment, node] = [volume.claims[uid], volume.attachments["n1"], world.nodes.get("n1")];
    if (claim === undefined || attachment === undefined || node === undefined) throw new Error("no claim");
    await world.release("web");
    await world.idle();
    for (const workload of ["again", "and-again"]) {
      await world.claim(workload, "n2", ["data"]);
      await world.idle();
      await world.release(workload);
      await world.idle();
    }
    expect((await world.volume("data")).epoch).toEqual({ gen: 1, ctr: 3 });
    world.backend.attach(volume.externalId, "n1");
    world.agents.loseJournal("n1");
    world.agents.forgetReleases();
    const lost = { ...claim, uid: "lost-by-the-store", workload: "lost" };
    const epoch = { gen: 1, ctr: 2 };
    const permit = { volume, claim: lost, attachment, nodeEpoch: 1, epoch, oldestLiveEpoch: epoch };
    await world.agents.publish(node.record, permit, {
      signal: new AbortController().signal,
      attempt: 1,
      vetting: world.gate.state().vetting,
    });
    world.nodes.set("n1", { instance: "instance-2" });
    await world.idle();
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    expect((await world.volume("data")).foreign).toMatchObject([{ node: "n1", claimUid: "lost-by-the-store" }]);
    await expect(world.claim("second", "n2", ["data"])).rejects.toMatchObject({ reason: "FOREIGN_HOLD" });

    await world.records.change({ namespace: "default", id: "data" }, (v, at) => {
      const [hold] = v.foreign ?? [];
      return hold === undefined ? noChange(v) : foreignAbandoned(v, hold, { heard: true, evidence: "stopped" }, at);
    });
    // It is given up, and not let go of yet.
    world.agents.script("release", ...Array(3).fill({ kind: "pending", blocked: true }));
    await world.pass(5_000);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    await expect(world.claim("second", "n2", ["data"])).rejects.toMatchObject({ reason: "FOREIGN_HOLD" });
    await world.pass(2 * 60_000);
    expect(world.agents.mounts()).toEqual([]);
    expect((await world.volume("data")).foreign).toBeUndefined();
  });

  it("is asked once per life, and again when it did not answer", async () => {
    await active();
    const asked = () => world.agents.calls.filter((c) => c === "inventory n1" || c === "promise n1 1");
    const before = asked();
    for (let n = 0; n < 3; n += 1) world.nodes.set("n1", {});
    await world.idle();
    expect(asked()).toEqual(before);
    world.agents.silence("n1", true);
    world.nodes.set("n1", { instance: "instance-2" });
    await world.clock.advance(0);
    world.agents.silence("n1", false);
    await world.clock.advance(5_000);
    // What was decided in another history of the store comes too late before anybody believes what is held here.
    expect(asked().slice(before.length)).toEqual(["promise n1 1", "promise n1 1", "inventory n1"]);
  });

  it("is asked again once the store was vetted anew: what was noted for that may be over", async () => {
    await active();
    const before = world.agents.calls.length;
    world.gate.set(false);
    world.gate.set(true, 2);
    await world.idle();
    expect(world.agents.calls.slice(before).filter((call) => / n1( |$)/.test(call))).toEqual([
      "promise n1 2",
      "inventory n1",
    ]);
  });
});
