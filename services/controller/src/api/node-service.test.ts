import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { NodeState, type WatchNodesResponse } from "@holdfast/shared/gen/holdfast/v1/node";
import { PluginHealth, PluginRole, Support } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ServedApi, serveApi } from "../../../../test/support/controller/served-api.ts";
import { createWorld, plugin, type World } from "../../../../test/support/controller/world.ts";
import { nodeMessage } from "./convert-node.ts";

let world: World;
let api: ServedApi;

beforeEach(async () => {
  world = await createWorld();
  api = await serveApi(world);
});
afterEach(async () => {
  await api.close();
  await world.close();
});

describe("nodes", () => {
  test("are shown with this controller's own view of who is silent", async () => {
    world.nodes.set("n1", {}, "suspect");
    const { node } = await api.nodes.getNode({ name: "n1" });
    expect(node).toMatchObject({
      name: "n1",
      state: NodeState.NODE_STATE_SUSPECT,
      schedulable: false,
      nodeEpoch: 1n,
      plugins: [
        { plugin, role: PluginRole.PLUGIN_ROLE_NODE, health: PluginHealth.PLUGIN_HEALTH_HEALTHY, nodeId: "n1" },
      ],
    });
    expect(node?.stateMessage).toContain("silent");
    world.nodes.set("n1", { state: "QUARANTINED" }, "suspect");
    expect((await api.nodes.getNode({ name: "n1" })).node?.state).toBe(NodeState.NODE_STATE_QUARANTINED);
    await expect(api.nodes.getNode({ name: "n9" })).rejects.toMatchObject({ reason: "NODE_NOT_FOUND" });
    await expect(api.nodes.getNode({ name: "" })).rejects.toMatchObject({ violations: [{ field: "name" }] });
  });

  test("a second agent that wants the name is flagged", () => {
    const view = world.nodes.get("n1");
    if (view === undefined) throw new Error("no n1");
    const conflict = { since: 1_000, machineId: "m2", why: "its journal is another one" };
    expect(nodeMessage(view, { rev: 3, lastHeartbeat: 5, message: "", conflict }).blocked).toMatchObject({
      reason: "NODE_CONFLICT",
      message: expect.stringContaining("machine m2"),
      clearWith: expect.stringContaining("HOLDFAST_NODE"),
    });
  });

  test("are listed by pages, filtered by state and plugin", async () => {
    const first = await api.nodes.listNodes({ pageSize: 2 });
    expect(first.nodes.map(({ name }) => name)).toEqual(["n1", "n2"]);
    const second = await api.nodes.listNodes({ pageSize: 2, pageToken: first.nextPageToken });
    expect(second).toMatchObject({ nodes: [{ name: "n3" }], nextPageToken: "" });
    world.nodes.set("n2", {}, "suspect");
    const suspects = await api.nodes.listNodes({ filter: { states: [NodeState.NODE_STATE_SUSPECT] } });
    expect(suspects.nodes.map(({ name }) => name)).toEqual(["n2"]);
    expect((await api.nodes.listNodes({ filter: { plugin: "none" } })).nodes).toEqual([]);
    await expect(api.nodes.listNodes({ filter: { placementClass: "x" } })).rejects.toMatchObject({
      reason: "NOT_IMPLEMENTED",
    });
  });

  test("are watched: what is there, then what changes, silence too", async () => {
    const until = new AbortController();
    const watch = (request: object) => {
      const messages: WatchNodesResponse[] = [];
      const ended = (async () => {
        for await (const message of api.nodes.watchNodes(request, { signal: until.signal })) messages.push(message);
      })().catch(() => undefined);
      return { messages, ended };
    };
    const all = watch({});
    const ready = watch({ filter: { states: [NodeState.NODE_STATE_READY] } });
    await expect.poll(() => [all.messages.length, ready.messages.length]).toEqual([4, 4]);
    expect(all.messages.map(({ kind }) => kind)).toEqual([1, 1, 1, WatchKind.WATCH_KIND_SYNCED]);
    world.nodes.set("n2", {}, "suspect");
    await expect.poll(() => [all.messages.length, ready.messages.length]).toEqual([5, 5]);
    expect(all.messages[4]).toMatchObject({
      kind: WatchKind.WATCH_KIND_CHANGED,
      node: { name: "n2", state: NodeState.NODE_STATE_SUSPECT },
    });
    expect(ready.messages[4]).toMatchObject({ kind: WatchKind.WATCH_KIND_REMOVED, node: { name: "n2" } });
    const resumed = watch({ resumeToken: all.messages[4]?.resumeToken });
    await expect.poll(() => resumed.messages.length).toBe(3);
    expect(new Set(resumed.messages.map(({ kind }) => kind))).toEqual(new Set([WatchKind.WATCH_KIND_CHANGED]));
    until.abort();
    await Promise.all([all.ended, ready.ended, resumed.ended]);
  });
});

describe("plugins", () => {
  test("are what nodes and controllers see of them, and say what is missing", async () => {
    const { plugin: found } = await api.plugins.getPlugin({ name: plugin });
    expect(found).toMatchObject({ name: plugin, schedulable: false, controllerRequired: Support.SUPPORT_UNSPECIFIED });
    expect(found?.unschedulableBecause).toContain("controller half");
    expect(found?.instances.map(({ node }) => node)).toEqual(["n1", "n2", "n3"]);
    for (const name of ["n1", "n2", "n3"]) {
      const record = world.nodes.get(name)?.record;
      const plugins = (record?.plugins ?? []).map((one) => ({
        ...one,
        capabilities: { "plugin:CONTROLLER_SERVICE": "no", "node:STAGE_UNSTAGE_VOLUME": "yes" } as const,
      }));
      world.nodes.set(name, { plugins });
    }
    const { plugins, nextPageToken } = await api.plugins.listPlugins({ node: "n2" });
    expect(nextPageToken).toBe("");
    expect(plugins).toMatchObject([
      { name: plugin, schedulable: true, unschedulableBecause: "", controllerRequired: Support.SUPPORT_NO },
    ]);
    expect(plugins[0]?.instances[0]?.fingerprint?.capabilities).toMatchObject({
      plugin: { CONTROLLER_SERVICE: Support.SUPPORT_NO },
      node: { STAGE_UNSTAGE_VOLUME: Support.SUPPORT_YES },
    });
    expect((await api.plugins.listPlugins({ node: "n9" })).plugins).toEqual([]);
    await expect(api.plugins.getPlugin({ name: "nobody" })).rejects.toMatchObject({ reason: "PLUGIN_NOT_FOUND" });
  });
});
