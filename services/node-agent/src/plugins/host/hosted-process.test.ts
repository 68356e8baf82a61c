/** An agent process, plugin processes that it hosts, real mounts, and kills in between. */
import { spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import {
  PluginHostServiceDefinition,
  type SupervisePluginResponse,
  SupervisionEvent,
} from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { PluginHealth, PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { type SimPluginProcess, startSimBackend, startSimPlugin } from "@holdfast/sim-plugin/processes";
import { describe, expect, onTestFinished, test } from "vitest";
import { type AgentRig, isRoot, journalText, pluginName, startRig } from "../../testing/agent-rig.ts";
import { socketDirsIn } from "../../testing/host-rig.ts";

const NODE = PluginRole.PLUGIN_ROLE_NODE;
const READY = SupervisionEvent.SUPERVISION_EVENT_READY;

async function startHosting() {
  const rig = await startRig();
  rig.plugin.kill(); // the one that merely shows a socket
  const local = `unix://${path.join(rig.dir, "l.sock")}`;
  const env = {
    HOLDFAST_LOCAL_LISTEN: local,
    HOLDFAST_PLUGIN_HEALTH_INTERVAL: "200ms",
  };
  const backendDir = path.join(rig.dir, "b");
  await mkdir(backendDir);
  const backend = await startSimBackend({
    dir: backendDir,
    capabilities: { without: ["controller.PUBLISH_UNPUBLISH_VOLUME"] },
  });
  onTestFinished(() => backend.stop());
  await backend.client.addVolume({ id: "vol-1", capacity: 16n * 1024n * 1024n });
  const channel = createGrpcChannel(local);
  onTestFinished(() => channel.close());
  const runner = createGrpcClient(PluginHostServiceDefinition, channel, {
    log: createMemoryLogger(),
    identity: { role: "local", name: "runner" },
  });
  return {
    rig,
    runner,
    backend,
    start: (more: Readonly<Record<string, string>> = {}) => rig.start({ ...env, ...more }),
    async plugin(socket: string, instance: string): Promise<SimPluginProcess> {
      const started = await startSimPlugin({
        role: "node",
        node: "node-a",
        dir: path.dirname(socket),
        socket,
        backend: backend.socketPath,
        instance,
        realMounts: true,
        dataDir: path.join(rig.dir, "data"),
      });
      onTestFinished(() => started.stop());
      return started;
    },
    /** Follows an instance until it is ready. */
    async ready(allocation: string): Promise<SupervisePluginResponse[]> {
      const seen: SupervisePluginResponse[] = [];
      for await (const step of runner.supervisePlugin({ allocation })) {
        seen.push(step);
        if (step.event === READY) return seen;
      }
      throw new Error(`${allocation} did not become ready`);
    },
  };
}

/** The agent's root as a container would be shown it: another path, with mounts that show on both sides. */
async function showRoot(rig: AgentRig): Promise<string> {
  const view = path.join(rig.dir, "view");
  await mkdir(rig.rootDir, { recursive: true, mode: 0o711 });
  await mkdir(view);
  const mount = (...args: string[]) => expect(spawnSync("mount", args, { encoding: "utf8" }).stderr).toBe("");
  mount("--bind", rig.rootDir, rig.rootDir);
  mount("--make-private", rig.rootDir);
  mount("--make-shared", rig.rootDir);
  mount("--bind", rig.rootDir, view);
  return view;
}

/** Again and again while the agent is away. */
async function untilAnswered<T>(ask: () => Promise<T>): Promise<T> {
  let last: unknown;
  for (let attempt = 0; attempt < 600; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      last = error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new Error("it was never answered", { cause: last });
}

const health = (rig: AgentRig) => rig.controller.fingerprints().map(({ instanceId, health: it }) => [instanceId, it]);

describe.skipIf(!isRoot)("a plugin process that the agent hosts", () => {
  test("its volume outlives the agent's SIGKILL and its own replacement by a newer instance; then both are stopped", async () => {
    const { rig, runner, backend, start, plugin, ready } = await startHosting();
    await start();
    const asked = { plugin: pluginName, allocation: "alloc-1", role: NODE, hostFilesystem: true };
    const { socket } = await runner.preparePlugin(asked);
    const first = await plugin(socket, "first");
    expect((await ready("alloc-1")).at(-1)?.fingerprint?.nodeId).toBe("node-a");
    await expect.poll(() => health(rig)).toEqual([["alloc-1", PluginHealth.PLUGIN_HEALTH_HEALTHY]]);
    await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    const mounted = rig.mountsBelowRoot();

    rig.signal("SIGKILL");
    await rig.exited();
    expect(rig.mountsBelowRoot()).toEqual(mounted);
    await start();
    // Nobody prepared it again: it is known, and in the first report.
    expect(health(rig)).toEqual([["alloc-1", PluginHealth.PLUGIN_HEALTH_HEALTHY]]);
    expect((await runner.preparePlugin(asked)).socket).toBe(socket);
    const { instances } = await runner.listInstances({ plugin: pluginName });
    expect(instances.map(({ allocation, current }) => [allocation, current])).toEqual([["alloc-1", true]]);
    await expect(runner.stopPlugin({ allocation: "alloc-1" })).rejects.toMatchObject({
      message: expect.stringContaining("is needed by 1 volumes on this node: ns/vol-1"),
    });

    const newer = await runner.preparePlugin({ ...asked, allocation: "alloc-2" });
    await plugin(newer.socket, "second");
    await ready("alloc-2");
    expect(await runner.stopPlugin({ allocation: "alloc-1" })).toEqual({ stopped: true, calls: [] });
    await first.stop();
    rig.signal("SIGKILL");
    await rig.exited();
    await start();
    expect((await rig.publishUntilSettled({ uid: "a", ctr: 1 })).published).toBeDefined();
    expect(rig.mountsBelowRoot()).toEqual(mounted);
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    expect(rig.mountsBelowRoot()).toEqual([]);
    expect(await runner.stopPlugin({ allocation: "alloc-2" })).toEqual({ stopped: true, calls: [] });
    expect(await socketDirsIn(path.join(rig.dir, "h"))).toEqual([]);
    await expect.poll(() => health(rig)).toEqual([]);
    const record = await backend.client.record();
    expect(record.filter(({ method }) => method === "NodeStageVolume")).toHaveLength(1);
    expect(record.filter(({ method }) => method === "NodeUnpublishVolume").map(({ instance }) => instance)).toEqual([
      "second",
    ]);
    expect(await backend.client.violations()).toEqual([]);
  });

  test("a plugin in a container is told its own paths, and its mounts are found at the host's", async () => {
    const { rig, runner, backend, start, plugin, ready } = await startHosting();
    const view = await showRoot(rig);
    await start();
    const { socket, mounts } = await runner.preparePlugin({
      plugin: pluginName,
      allocation: "alloc-1",
      role: NODE,
      publishDir: view,
    });
    expect(mounts.map(({ hostPath, containerPath }) => [hostPath, containerPath])).toContainEqual([rig.rootDir, view]);
    await plugin(socket, "contained");
    await ready("alloc-1");
    const up = await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    expect(up.published?.hostPath.startsWith(`${rig.rootDir}/publish/`)).toBe(true);
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    expect(rig.mountsBelowRoot()).toEqual([]);
    const record = await backend.client.record();
    const paths = record.flatMap(({ method, request }) =>
      method.startsWith("Node") ? [JSON.stringify(request ?? {})] : [],
    );
    expect(paths.filter((it) => it.includes(`${rig.rootDir}/`))).toEqual([]);
    expect(paths.filter((it) => it.includes(`${view}/publish/`)).length).toBeGreaterThanOrEqual(2);
    expect(await backend.client.violations()).toEqual([]);
  });

  test("a plugin that is killed is reported gone, and used again when it is back; a volume waits for it meanwhile", async () => {
    const { rig, runner, start, plugin, ready } = await startHosting();
    await start();
    const { socket } = await runner.preparePlugin({
      plugin: pluginName,
      allocation: "alloc-1",
      role: NODE,
      hostFilesystem: true,
    });
    const process = await plugin(socket, "one");
    await ready("alloc-1");
    await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    process.kill("SIGKILL");
    await process.exited;
    await expect.poll(() => health(rig)).toEqual([]);
    expect((await rig.release({ uid: "a", ctr: 1 })).pending?.reason).toBe("PLUGIN_NOT_READY");
    await plugin(socket, "two");
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    expect(rig.mountsBelowRoot()).toEqual([]);
  });
});

describe.skipIf(!isRoot)("the agent killed at a record of a hosted plugin", () => {
  test.each(["prepared", "registered", "removed"] as const)(
    "%s: the runner asks again and finds what it asked for, and nothing is left at the end",
    async (record) => {
      const { rig, runner, start, plugin, ready } = await startHosting();
      await start();
      rig.signal("SIGTERM");
      await rig.exited();
      const nth = ["prepared", "registered", "removed"].indexOf(record) + 1;
      await start({ HOLDFAST_FAILPOINTS: `agent.journal.after-write=kill@${nth}` });
      const revived = rig.exited().then(async (how) => {
        expect(how).toBe("SIGKILL");
        expect(JSON.stringify(await journalText(rig))).toContain(`\\"type\\":\\"${record}\\"`);
        await start();
      });
      const asked = { plugin: pluginName, allocation: "alloc-1", role: NODE, hostFilesystem: true };
      const { socket } = await untilAnswered(() => runner.preparePlugin(asked));
      await plugin(socket, "one");
      await untilAnswered(() => ready("alloc-1"));
      expect(await untilAnswered(() => runner.stopPlugin({ allocation: "alloc-1" }))).toMatchObject({ stopped: true });
      await revived;
      expect(await untilAnswered(() => runner.listInstances({ plugin: pluginName }))).toMatchObject({ instances: [] });
      expect(await socketDirsIn(path.join(rig.dir, "h"))).toEqual([]);
    },
  );
});

describe.skipIf(!isRoot)("a plugin that merely shows a socket", () => {
  test("is told its own paths when plugins.json says where it sees the agent's root", async () => {
    const rig = await startRig();
    const view = await showRoot(rig);
    const plugins = [{ socket: "sim.sock", id: pluginName, role: "node", publish_dir: view }];
    await writeFile(path.join(rig.dir, "p", "plugins.json"), JSON.stringify({ plugins }));
    await rig.start();
    // In the first report already.
    expect(health(rig)).toEqual([[path.join(rig.dir, "p", "sim.sock"), PluginHealth.PLUGIN_HEALTH_HEALTHY]]);
    const up = await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    expect(up.published?.hostPath.startsWith(`${rig.rootDir}/publish/`)).toBe(true);
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    const record = rig.plugin.backend.record().filter(({ method }) => method === "NodePublishVolume");
    expect(record.map(({ request }) => JSON.stringify(request).includes(`${view}/publish/`))).toEqual([true]);
    expect(rig.mountsBelowRoot()).toEqual([]);
    expect(rig.plugin.backend.violations()).toEqual([]);
  });

  test("under another name than plugins.json gives it, it is quarantined and told so; a file with mistakes stops the start", async () => {
    const rig = await startRig();
    const file = path.join(rig.dir, "p", "plugins.json");
    await writeFile(file, '{"plugins": [{"socket": "sim", "role": "both"}]}');
    await expect(rig.start()).rejects.toThrow(/plugins\[0\] socket has to be .*; plugins\[0\] role has to be/);
    await writeFile(file, '{"plugins": [{"socket": "sim.sock", "id": "other.example.com"}]}');
    await rig.start();
    await expect
      .poll(() => rig.controller.fingerprints().map(({ plugin, blocked }) => [plugin, blocked?.reason]))
      .toEqual([["other.example.com", "PLUGIN_IDENTITY_CHANGED"]]);
    expect((await rig.publish({ uid: "a", ctr: 1 })).uncertain?.reason).toBe("PLUGIN_NOT_READY");
  });
});
