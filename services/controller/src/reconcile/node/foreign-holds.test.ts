import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";
import type { Inventory } from "../../domain/claim/permit.ts";
import { noteForeignHolds } from "./foreign-holds.ts";
import { reconcileInventory } from "./inventory.ts";

let world: World;
const signal = new AbortController().signal;
const queue = { queue: { enabled: true, deadlineMs: undefined } };

beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
});

afterEach(() => world.close());

const told = async (holds: boolean, claimUid = "lost"): Promise<Inventory> => {
  const { namespace, id, uid, externalId, plugin } = await world.volume("data");
  const held = [{ claimUid, workload: "web", alias: "data", epoch: { gen: 1, ctr: 7 }, state: "PUBLISHED" as const }];
  const volumes = holds ? [{ namespace, volume: id, volumeUid: uid, externalId, plugin, held }] : [];
  const { journalUid = "" } = world.nodes.get("n1")?.record ?? {};
  return { node: "n1", journalUid, nodeEpoch: 1, volumes, orphans: [] };
};
const recordOf = (name: string) => world.nodes.get(name)?.record ?? expect.fail();
const note = async (holds: boolean, isOfVetting?: () => boolean, uid?: string): Promise<void> => {
  await noteForeignHolds(world, recordOf("n1"), await told(holds, uid), isOfVetting);
};
const foreign = async (): Promise<readonly string[]> =>
  ((await world.volume("data")).foreign ?? []).map(({ claimUid }) => claimUid);

describe("[I1] a hold that was noted", () => {
  it("is taken back by an inventory of the vetting that stands, and by no other one", async () => {
    await note(true);
    await note(false);
    expect(await foreign(), "before the store is vetted").toEqual(["lost"]);
    await note(false, () => false);
    expect(await foreign(), "by what was told before the store was vetted anew").toEqual(["lost"]);
    await note(false, () => true);
    expect(await foreign()).toEqual([]);
  });

  it("of a copy of the host, which had the name before the store was lost, is not taken back by the first host", async () => {
    const first = { ...recordOf("n1"), hostIdentity: "host", lockId: "lock" };
    const copy = { ...first, hostIdentity: "copy", lockId: "lock of the copy", bootId: "boot of the copy" };
    await noteForeignHolds(world, copy, await told(true));
    world.nodes.set("n1", first);
    await note(false, () => true);
    expect(await foreign()).toEqual(["lost"]);
    await noteForeignHolds(world, copy, await told(false), () => true);
    expect(await foreign()).toEqual([]);
  });

  it("stays when the store was lost and vetted anew while the inventory of before was on its way", async () => {
    const node = world.nodes.get("n1");
    if (node === undefined) throw new Error("no node");
    const answer = (inventory: () => Promise<Inventory>) =>
      reconcileInventory({ ...world, plugins: world.backend, signal, agents: { ...world.agents, inventory } }, node);
    const late = answer(async () => {
      const before = await told(false);
      world.gate.set(true, 2);
      await note(true);
      return before;
    });
    expect(await late).toBe("shut");
    expect(await foreign()).toEqual(["lost"]);
    expect(await answer(() => told(false))).toBe("settled");
    expect(await foreign()).toEqual([]);
  });

  it("[I2] [I6] owes the detach that was lost with it, once the node has let go, before the volume goes elsewhere", async () => {
    const node = world.nodes.get("n1");
    if (node === undefined) throw new Error("no node");
    const inventoryWith = async (holds: boolean) =>
      reconcileInventory(
        { ...world, plugins: world.backend, signal, agents: { ...world.agents, inventory: () => told(holds) } },
        node,
      );
    await inventoryWith(true);
    expect((await world.volume("data")).attachments["n1"]).toMatchObject({ state: "DETACHING", owed: { why: "late" } });
    const detaches = () => world.backend.calls.filter((call) => call.startsWith("unpublish"));
    await world.idle();
    expect(detaches()).toEqual([]);
    await world.claim("next", "n2", ["data"], queue);
    await inventoryWith(false);
    await world.idle();
    expect(detaches()).toHaveLength(1);
    expect((await world.volume("data")).attachments["n1"]).toBeUndefined();
    expect(await world.states("next")).toEqual(["ACTIVE"]);
  });

  describe("[I2] of a claim that is to be attached, as the store has lost that it was offered", () => {
    const offered = async () => {
      world.backend.script("publish", { kind: "dropped" });
      const [view] = await world.claim("web", "n1", ["data"]);
      await world.idle();
      expect(await world.states("web")).toEqual(["ATTACHING"]);
      const uid = view?.claim.uid ?? "";
      const node = world.nodes.get("n1");
      if (node === undefined) throw new Error("no node");
      const { epoch } = (await world.volume("data")).claims[uid] ?? {};
      if (epoch === undefined) throw new Error("it was granted");
      const inventory = async (holds: boolean): Promise<Inventory> => {
        const before = await told(holds, uid);
        return {
          ...before,
          volumes: before.volumes.map((one) => ({ ...one, held: one.held.map((held) => ({ ...held, epoch })) })),
        };
      };
      return async (holds: boolean) =>
        reconcileInventory(
          { ...world, plugins: world.backend, signal, agents: { ...world.agents, inventory: () => inventory(holds) } },
          node,
        );
    };
    const detaches = () => world.backend.calls.filter((call) => call.startsWith("unpublish"));

    it("is detached only when the agent holds it no more", async () => {
      const inventoryWith = await offered();
      expect(await inventoryWith(true)).toBe("owed");
      await world.release("web");
      await world.pass(60_000);
      expect(await world.states("web")).toEqual(["DETACHING"]);
      expect(detaches()).toEqual([]);
      await inventoryWith(false);
      await world.idle();
      expect(detaches()).toHaveLength(1);
    });

    it("is detached only then, too, where it was released before the store was vetted", async () => {
      await offered();
      const volume = await world.volume("data");
      const active = Object.values(volume.claims).map((claim) => [claim.uid, { ...claim, state: "ACTIVE" as const }]);
      world.agents.hold({ ...volume, claims: Object.fromEntries(active) });
      world.gate.set(false, 2);
      await world.release("web");
      await world.idle();
      expect(await world.states("web")).toEqual(["DETACHING"]);
      const record = recordOf("n1");
      await noteForeignHolds(world, record, await world.agents.inventory(record, signal));
      world.agents.script("release", { kind: "pending", blocked: false }, { kind: "pending", blocked: false });
      world.gate.set(true, 3);
      await world.pass(60_000);
      expect(detaches()).toHaveLength(1);
      expect(world.violations()).toEqual([]);
      expect(await world.states("web")).toEqual(["RELEASED"]);
      expect(await foreign()).toEqual([]);
    });

    it("goes on to be attached and offered, and is noted no more then", async () => {
      const inventoryWith = await offered();
      await inventoryWith(true);
      await world.pass(60_000);
      expect(await world.states("web")).toEqual(["ACTIVE"]);
      expect(await inventoryWith(true)).toBe("settled");
      expect(await foreign()).toEqual([]);
    });
  });

  it("[I6] of a claim that ended after its grant was lost raises the epoch, so that the store can be vetted", async () => {
    const [claim] = await world.claim("web", "n1", ["data"]);
    await world.idle();
    await world.release("web");
    await world.idle();
    const uid = claim?.claim.uid ?? "";
    await note(true, undefined, uid);
    expect(await foreign()).toEqual([uid]);
    expect((await world.volume("data")).epoch).toEqual({ gen: 1, ctr: 7 });
    await note(false, () => true);
    await note(true, () => true, uid);
    expect(await foreign(), "what is not above the record waits for nobody").toEqual([]);
  });

  it("is taken back in a vetted store alone, whatever is known here", async () => {
    await note(true);
    const asked: boolean[] = [];
    const { commit } = world.store;
    world.store.commit = async (wanted) => {
      asked.push(wanted.requiresVetted);
      return await commit(wanted);
    };
    await note(false, () => true);
    expect(asked).toEqual([true]);
  });
});
