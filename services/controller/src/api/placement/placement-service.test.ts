import { PlacementObstacle } from "@holdfast/shared/gen/holdfast/v1/placement";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type ServedApi, serveApi } from "../../../../../test/support/controller/served-api.ts";
import { createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";

let world: World;
let api: ServedApi;

beforeEach(async () => {
  world = await createWorld({ nodes: ["n1", "n2", "n3"] });
  await world.makeVolume("a");
  api = await serveApi(world);
});
afterEach(async () => {
  await api.close();
  await world.close();
});

const asked = { namespace: "default", workload: "asker", claims: [{ volume: "a" }] };

describe("placement", () => {
  test("is answered by pages, with reasons, scores and classes", async () => {
    await world.claim("holder", "n1", ["a"]);
    await world.idle();
    const first = await api.placement.checkPlacement({ ...asked, pageSize: 2 });
    expect(first.nodes.map(({ node, feasible }) => [node, feasible])).toEqual([
      ["n1", false],
      ["n2", false],
    ]);
    expect(first.nodes[0]?.reasons[0]).toMatchObject({
      obstacle: PlacementObstacle.PLACEMENT_OBSTACLE_CLAIM_CONFLICT,
      volume: "a",
      plugin,
      holderWorkload: "holder",
      holderNode: "n1",
      transient: true,
    });
    const rest = await api.placement.checkPlacement({ ...asked, pageSize: 2, pageToken: first.nextPageToken });
    expect([rest.nodes.map(({ node }) => node), rest.nextPageToken]).toEqual([["n3"], ""]);
    const placed = (await api.nodes.getNode({ name: "n3" })).node;
    expect(rest.nodes[0]?.placementClass).toBe(placed?.placementClass);
    expect((await api.placement.checkPlacement({ ...asked, afterWorkloads: ["holder"] })).nodes[1]).toMatchObject({
      feasible: true,
      reasons: [],
      score: 40,
    });
  });

  test("refuses bad input with every violation, and a token of another question", async () => {
    const bad = { ...asked, workload: "", claims: [], pageSize: 501 };
    await expect(api.placement.checkPlacement(bad)).rejects.toMatchObject({ kind: "invalid" });
    const { nextPageToken } = await api.placement.checkPlacement({ ...asked, pageSize: 1 });
    await expect(
      api.placement.checkPlacement({ ...asked, workload: "other", pageToken: nextPageToken }),
    ).rejects.toMatchObject({ kind: "invalid" });
    await expect(api.placement.checkPlacement({ ...asked, nodes: ["nowhere"] })).rejects.toMatchObject({
      reason: "NODE_NOT_FOUND",
    });
  });

  test("a node shows its attach slots, counted by the store", async () => {
    const plugins = (world.nodes.get("n1")?.record.plugins ?? []).map((half) => ({ ...half, maxVolumes: 7 }));
    world.nodes.set("n1", { plugins });
    await world.claim("holder", "n1", ["a"]);
    await world.idle();
    const slots = async (name: string) => (await api.nodes.getNode({ name })).node?.attachSlots;
    expect(await slots("n1")).toEqual([{ plugin, used: 1n, limit: 7n }]);
    expect(await slots("n2")).toEqual([{ plugin, used: 0n, limit: 0n }]);
    const listed = (await api.nodes.listNodes({})).nodes.map(({ attachSlots }) => attachSlots[0]?.used);
    expect(listed).toEqual([1n, 0n, 0n]);
  });
});

describe("how much is read", () => {
  test("does not grow with the volumes and the nodes that nobody asked for", async () => {
    for (let n = 0; n < 40; n += 1) await world.makeVolume(`more-${n}`);
    const list = vi.spyOn(world.store, "list");
    const before = [world.store.reads(), world.store.counts()];
    await api.placement.checkPlacement(asked);
    await api.placement.checkPlacement(asked);
    expect(list).not.toHaveBeenCalled();
    expect([world.store.reads(), world.store.counts()]).toEqual(before);
    await api.volumes.getVolume({ namespace: "default", id: "a" });
    expect(world.store.reads() - (before[0] ?? 0)).toBe(1);
    await api.volumes.listVolumes({ filter: { namespace: "default" }, pageSize: 10 });
    expect(list.mock.calls.map(([{ index, limit }]) => [index, limit])).toEqual([["volume-namespace", 10]]);
    list.mockClear();
    await world.claim("w", "n1", ["a"]);
    await world.idle();
    expect(list).not.toHaveBeenCalled();
  });
});
