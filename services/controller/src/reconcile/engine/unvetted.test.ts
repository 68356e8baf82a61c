import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const queue = { queue: { enabled: true, deadlineMs: undefined } };
const since = (calls: readonly string[], from: number) => calls.slice(from).map((c) => c.split(" ")[0]);

describe("[I8] while the store is not vetted", () => {
  it("nothing is granted, and all that waited is granted at once when it is", async () => {
    world.gate.set(false);
    const [view] = await world.claim("web", "n1", ["data"], queue);
    expect(view?.claim.state).toBe("QUEUED");
    expect(view?.kind === "living" && view.waitingFor).toContain("not vetted");
    await world.pass(60_000);
    expect(await world.states("web")).toEqual(["QUEUED"]);
    expect(world.backend.attachments()).toEqual([]);
    world.gate.set(true, 2);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect((await world.volume("data")).epoch).toEqual({ gen: 2, ctr: 1 });
  });

  it("no attach leaves and no permit is pushed for what was granted before", async () => {
    world.backend.script("publish", { kind: "dropped" });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.gate.set(false);
    const from = world.backend.calls.length;
    await world.pass(60_000);
    expect(since(world.backend.calls, from)).toEqual([]);
    expect(await world.states("web")).toEqual(["ATTACHING"]);
    world.gate.set(true);
    world.agents.script("publish", { kind: "dropped" });
    await world.pass(100, 100);
    expect(await world.states("web")).toEqual(["OFFERED"]);
    world.gate.set(false);
    const pushes = world.agents.calls.length;
    await world.pass(60_000);
    expect(world.agents.calls.slice(pushes).filter((c) => c.startsWith("publish"))).toEqual([]);
    world.gate.set(true);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("releases go on, to the detach, when the agent shows that it holds nothing", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.gate.set(false);
    await world.release("web");
    await world.pass(5_000);
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(world.backend.attachments()).toEqual([]);
    expect(world.agents.calls.some((c) => c === "inventory n1")).toBe(true);
  });

  it("[I2] a detach that an old record owes does not take a mounted volume from its node", async () => {
    const [view] = await world.claim("web", "n1", ["data"]);
    await world.idle();
    const held = await world.volume("data");
    // The store has returned to a past in which this pair was being detached; since then it was granted again and mounted.
    world.gate.set(false);
    const uid = view?.claim.uid ?? "";
    await world.records.change(held, (volume, at) => {
      const claim = volume.claims[uid];
      const attachment = volume.attachments["n1"];
      if (claim === undefined || attachment === undefined) throw new Error("the claim is gone");
      return {
        volume: {
          ...volume,
          claims: { [uid]: { ...claim, state: "DETACHING", goal: "released" } },
          attachments: { n1: { ...attachment, state: "DETACHING" } },
          intent: { op: "detach", node: "n1", epoch: volume.epoch, issuer: at.issuer, opId: at.opId },
        },
        ended: [],
        notes: [],
      };
    });
    await world.pass(120_000);
    expect(world.backend.attachments()).toHaveLength(1);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    world.agents.releaseLocally("n1", uid);
    await world.pass(400_000, 10_000);
    expect(world.backend.attachments()).toEqual([]);
  });

  it("[I2] a detach that was decided before the store changed does not leave by what is read last", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const { current } = world.records;
    Object.assign(world.records, {
      current: async (...asked: Parameters<typeof current>) => {
        // The store fails over to one that has forgotten a grant; it was vetted when the detach was planned.
        if (world.gate.state().open) {
          world.agents.silence("n1", true);
          world.gate.set(false, 2);
        }
        return await current(...asked);
      },
    });
    await world.release("web");
    await world.pass(60_000);
    expect(world.backend.attachments()).toHaveLength(1);
    world.agents.silence("n1", false);
    await world.pass(120_000);
    // Its agent has promised to follow nothing that was decided before, and then told that it holds nothing.
    const calls = world.agents.calls.filter((c) => c === "promise n1 2" || c === "inventory n1");
    expect(calls.slice(-2)).toEqual(["promise n1 2", "inventory n1"]);
    expect(world.backend.attachments()).toEqual([]);
  });

  it("no volume is made or deleted", async () => {
    world.gate.set(false);
    await expect(world.makeVolume("more")).rejects.toMatchObject({ kind: "unavailable", reason: "STORE_UNVETTED" });
    const caller = { who: "t", why: "t" };
    await world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
    await world.pass(60_000);
    expect((await world.volume("data")).state).toBe("DELETING");
    expect(world.backend.volumes()).toHaveLength(1);
    world.gate.set(true);
    await world.idle();
    expect(world.backend.volumes()).toEqual([]);
  });

  it("a commit that grants is refused by the store itself, whatever the controller believes", async () => {
    world.store.refuseGrants(true);
    await expect(world.claim("web", "n1", ["data"])).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    expect((await world.volume("data")).claims).toEqual({});
    world.store.refuseGrants(false);
    world.backend.script("publish", { kind: "dropped" });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.store.refuseGrants(true);
    await world.pass(10_000);
    expect(world.backend.attachments()).toHaveLength(1);
    expect(await world.states("web")).toEqual(["ATTACHING"]);
    await world.release("web");
    await world.pass(10_000);
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(world.backend.attachments()).toEqual([]);
  });
});
