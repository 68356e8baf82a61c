import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import {
  type DrainMode,
  DrainStage,
  type Node,
  NodeState,
  type WatchDrainResponse,
  type WatchNodesResponse,
} from "@holdfast/shared/gen/holdfast/v1/node";
import { PluginHealth, PluginRole, Support } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ServedApi, serveApi } from "../../../../../test/support/controller/served-api.ts";
import { createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import type { NodeView } from "../../ports.ts";
import { nodeMessage } from "./convert-node.ts";
import { createNodeService } from "./node-service.ts";

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

  test("show a link that is lost at once, with its end and why, and READY until none has it for a grace", () => {
    const view = world.nodes.get("n1");
    if (view === undefined) throw new Error("no n1");
    const linkEnd = { at: 1_000, why: "the connection was closed" };
    const remarks = { rev: 3, lastHeard: 1_000, linkEnd, message: "an old word", dispute: undefined };
    const shown = (live: NodeView["live"], linked: boolean) =>
      nodeMessage({ ...view, live, linked }, remarks, { placementClass: "", slots: [] });
    expect(shown("alive", false)).toMatchObject({
      state: NodeState.NODE_STATE_READY,
      stateMessage: expect.stringContaining("link lost since 1970-01-01T00:00:01.000Z: the connection was closed"),
      lastHeartbeat: new Date(1_000),
    });
    expect(shown("suspect", false)).toMatchObject({
      state: NodeState.NODE_STATE_SUSPECT,
      stateMessage: expect.stringMatching(/^its agent is silent.*the connection was closed$/),
    });
    expect(shown("suspect", true).stateMessage).toBe("an old word");
    expect(shown("alive", true).stateMessage).toBe("");
  });

  test("a second agent that wants the name is flagged", () => {
    const view = world.nodes.get("n1");
    if (view === undefined) throw new Error("no n1");
    const told = { node: "n1", since: 1_000, machineId: "m2", bootId: "b2", why: "its journal is another one" };
    const dispute = { ...told, reason: "NODE_CONFLICT" } as const;
    expect(
      nodeMessage(view, { rev: 3, lastHeard: 5, message: "", dispute }, { placementClass: "", slots: [] }).blocked,
    ).toMatchObject({
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
    expect((await api.nodes.listNodes({ filter: { placementClass: "x" } })).nodes).toEqual([]);
    const alike = (await api.nodes.getNode({ name: "n1" })).node?.placementClass ?? "";
    const same = await api.nodes.listNodes({ filter: { placementClass: alike } });
    expect(same.nodes.map(({ name }) => name)).toEqual(["n1", "n3"]);
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
    until.abort();
    await Promise.all([all.ended, ready.ended]);
  });

  const patient = { timeout: 30_000 };

  /** Watches until it is told to stop; what came meanwhile. */
  const watching = (request: object) => {
    const stop = new AbortController();
    const messages: WatchNodesResponse[] = [];
    const ended = (async () => {
      for await (const message of api.nodes.watchNodes(request, { signal: stop.signal })) messages.push(message);
    })().catch((error: unknown) => error);
    return {
      messages,
      ended,
      async stop() {
        stop.abort();
        await ended;
        return messages.at(-1)?.resumeToken ?? "";
      },
    };
  };

  test("watched from a token, tell exactly what changed meanwhile, each once", async () => {
    const first = watching({});
    await expect.poll(() => first.messages.length, patient).toBe(4);
    const resumeToken = await first.stop();
    world.nodes.set("n1", {}, "suspect");
    world.nodes.set("n3", { version: "2" });
    world.nodes.set("n1", {}, "alive");
    const resumed = watching({ resumeToken });
    await expect.poll(() => resumed.messages.length, patient).toBe(2);
    world.nodes.set("n2", {}, "suspect");
    await expect.poll(() => resumed.messages.length, patient).toBe(3);
    expect(resumed.messages.map(({ kind, node }) => [kind, node?.name])).toEqual([
      [WatchKind.WATCH_KIND_CHANGED, "n3"],
      [WatchKind.WATCH_KIND_CHANGED, "n1"],
      [WatchKind.WATCH_KIND_CHANGED, "n2"],
    ]);
    await resumed.stop();
  });

  test("watched from a token of the first part, are told the rest of it", async () => {
    const first = watching({});
    await expect.poll(() => first.messages.length, patient).toBe(4);
    await first.stop();
    world.nodes.set("n1", {}, "suspect");
    const rest = watching({ resumeToken: first.messages[0]?.resumeToken });
    await expect.poll(() => rest.messages.length, patient).toBe(4);
    expect(rest.messages.map(({ kind, node }) => [kind, node?.name])).toEqual([
      [WatchKind.WATCH_KIND_EXISTING, "n2"],
      [WatchKind.WATCH_KIND_EXISTING, "n3"],
      [WatchKind.WATCH_KIND_SYNCED, undefined],
      [WatchKind.WATCH_KIND_CHANGED, "n1"],
    ]);
    await rest.stop();
  });

  test("that are forgotten leave the watch with what was last known of them", async () => {
    const watch = watching({});
    await expect.poll(() => watch.messages.length, patient).toBe(4);
    world.nodes.set("n2", {}, "suspect");
    await api.nodes.forgetNode({ name: "n2", reason: "sold" });
    await expect.poll(() => watch.messages.at(-1)?.kind, patient).toBe(WatchKind.WATCH_KIND_REMOVED);
    expect(watch.messages.at(-1)?.node).toMatchObject({ name: "n2", machineId: "machine-n2" });
    await watch.stop();
  });

  test("watched with a token of another controller's life are watched anew", async () => {
    const first = watching({});
    await expect.poll(() => first.messages.length, patient).toBe(4);
    const resumeToken = await first.stop();
    await world.restart();
    expect(await watching({ resumeToken }).ended).toMatchObject({ kind: "out_of_range", reason: "EVENTS_TRIMMED" });
    expect(await watching({ resumeToken: "x" }).ended).toMatchObject({ violations: [{ field: "resume_token" }] });
  });
});

describe("a drain over the API", () => {
  const seconds = (n: number) => ({ seconds: BigInt(n), nanos: 0 });

  test("is shown on the node, waited for, and streamed until nothing is claimed there", async () => {
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const { node, stage, remaining } = await api.nodes.drainNode({ name: "n1", reason: "new kernel" });
    expect(node).toMatchObject({ drained: true, schedulable: false, drain: { reason: "new kernel" } });
    expect(node?.lastChange?.why).toBe("DrainNode");
    expect([stage, remaining.map(({ state }) => state)]).toEqual([DrainStage.DRAIN_STAGE_CLAIMS, ["ACTIVE"]]);
    const progress: WatchDrainResponse[] = [];
    const streamed = (async () => {
      for await (const message of api.nodes.watchDrain({ name: "n1" })) progress.push(message);
    })();
    await expect.poll(() => progress.length, { timeout: 30_000 }).toBe(1);
    const held = api.nodes.drainNode({ name: "n1", reason: "new kernel", waitFor: seconds(600) });
    await world.release("web");
    const settling = setInterval(() => void world.idle().catch(() => undefined), 5);
    try {
      expect((await held).stage).toBe(DrainStage.DRAIN_STAGE_PLUGINS);
      await streamed;
    } finally {
      clearInterval(settling);
    }
    expect(progress.at(-1)).toMatchObject({ stage: DrainStage.DRAIN_STAGE_PLUGINS, remainingCount: 0n });
    const opened = await api.nodes.undrainNode({ name: "n1", reason: "" });
    expect(opened.node).toMatchObject({ drained: false, schedulable: true });
    expect(opened.node?.drain).toBeUndefined();
  });

  test("with bad input is refused whole, and of a node that is not there named", async () => {
    await expect(
      api.nodes.drainNode({
        name: "N",
        mode: 9 as DrainMode,
        deadline: seconds(0),
        waitFor: { seconds: -1n, nanos: 0 },
      }),
    ).rejects.toMatchObject({
      violations: [{ field: "mode" }, { field: "wait_for" }, { field: "name" }, { field: "deadline" }],
    });
    expect(world.nodes.get("n1")?.record.drain).toBeUndefined();
    await expect(api.nodes.drainNode({ name: "n9" })).rejects.toMatchObject({ reason: "NODE_NOT_FOUND" });
    await expect(api.nodes.undrainNode({ name: "n9" })).rejects.toMatchObject({ reason: "NODE_NOT_FOUND" });
    const gone = (async () => {
      for await (const _message of api.nodes.watchDrain({ name: "n9" })) throw new Error("nothing is to be told");
    })();
    await expect(gone).rejects.toMatchObject({ reason: "NODE_NOT_FOUND" });
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

test("a scheduler is not told which claims of others keep a drain or a fence waiting", async () => {
  const overdue = { since: 1, remaining: 2, first: "claim data of web on volume bank/vault" };
  const remarks = () => ({
    rev: 1,
    lastHeard: 1,
    message: "",
    dispute: undefined,
    overdue,
    fenceWaits: "volume bank/vault",
  });
  world.nodes.set("n1", {
    state: "FENCING",
    fence: { who: "operator/ada", kind: "power-off", since: 1, evidence: "off" } as never,
  });
  const seenIn = async (namespaces: readonly string[] | undefined): Promise<string> => {
    const places = { of: () => ({ placementClass: "c", slots: [] }), count: async () => undefined };
    const deps = { nodes: world.nodes, places, remarks, scopeOf: () => ({ namespaces, plugins: namespaces }) };
    const { getNode } = createNodeService(deps as never);
    const { node } = (await getNode({ name: "n1" }, { identity: { role: "scheduler", name: "s" } } as never)) as {
      node: Node;
    };
    expect(node).toMatchObject({ name: "n1", state: NodeState.NODE_STATE_FENCING });
    return JSON.stringify([node.blocked, node.stateMessage]);
  };
  expect(await seenIn(undefined)).toContain("vault");
  expect(await seenIn(["shop"])).not.toContain("vault");
});
