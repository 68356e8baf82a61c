import { mkdir } from "node:fs/promises";
import path from "node:path";
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { type SimBackendProcess, startSimBackend, startSimPlugin } from "@holdfast/sim-plugin/processes";
import { describe, expect, it, onTestFinished } from "vitest";
import { startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  makeVolume,
  mountsUnder,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const names = ["one.sim.holdfast.dev", "two.sim.holdfast.dev"] as const;
type Name = (typeof names)[number];
const allocation = "both";
const asked = (plugin: Name) => ({
  plugin,
  allocation,
  role: PluginRole.PLUGIN_ROLE_MONOLITH,
  hostFilesystem: true,
});

const openRunner = (address: string) => {
  const channel = createGrpcChannel(address, { ownConnection: true });
  const identity = { role: "local", name: "runner" } as const;
  onTestFinished(() => channel.close());
  return createGrpcClient(PluginHostServiceDefinition, channel, { log: createMemoryLogger(), identity });
};

/** Both plugins on one node, each before storage of its own. */
const startBoth = async () => {
  const sockets = new Map<Name, string>();
  const backends = new Map<Name, SimBackendProcess>();
  let runner: ReturnType<typeof openRunner> | undefined;
  const cluster = await startCluster({
    nodes: ["node-a"],
    hostedPlugin: async (node, address) => {
      runner = openRunner(address);
      for (const name of names) {
        const { socket } = await runner.preparePlugin(asked(name));
        sockets.set(name, socket);
        const own = path.join(path.dirname(address.slice("unix://".length)), name);
        await mkdir(own, { mode: 0o700 });
        const backend = await startSimBackend({ dir: own, name });
        backends.set(name, backend);
        const plugin = await startSimPlugin({
          dir: path.dirname(socket),
          socket,
          backend: backend.socketPath,
          role: "monolith",
          node,
          realMounts: true,
          dataDir: path.join(own, "data"),
        });
        onTestFinished(async () => {
          await plugin.stop();
          await backend.stop();
        });
      }
    },
  });
  onTestFinished(() => cluster.stop());
  if (runner === undefined) throw new Error("no plugin was hosted");
  const node = cluster.node("node-a");
  const known = async (): Promise<readonly string[]> => {
    const { node: found } = await cluster.nodes.getNode({ name: "node-a" });
    return (found?.plugins ?? []).map(({ plugin, instanceId }) => `${plugin} ${instanceId}`).sort();
  };
  return { cluster, node, runner, sockets, backends, known };
};

describe.skipIf(!root)("two plugins that a runner hosts in one allocation", () => {
  it("D12: the agent is killed and finds both with their volumes; one is stopped, and the other serves until it is", async () => {
    const { cluster, node, runner, sockets, backends, known } = await startBoth();
    const [one, two] = names;
    const both = names.map((name) => `${name} ${allocation}`);
    expect(new Set(sockets.values()).size).toBe(2);
    await until("both plugins to be known", async () => (await known()).join() === both.join());
    const claim = async (id: string): Promise<string> => stateName(await claimVolume(cluster, id));
    for (const [id, plugin] of [
      ["v-one", one],
      ["v-two", two],
    ] as const) {
      await makeVolume(cluster, id, undefined, { plugin });
      expect(await claim(id)).toBe("ACTIVE");
    }
    const mounts = await mountsUnder(node.rootDir);

    await node.agent().kill("SIGKILL");
    expect(await mountsUnder(node.rootDir)).toEqual(mounts);
    await node.startAgent();
    const listed = (await persistently("the instances", () => runner.listInstances({}))).instances;
    expect(listed.map(({ plugin, allocation: in_, current }) => [plugin, in_, current])).toEqual([
      [one, allocation, true],
      [two, allocation, true],
    ]);
    for (const name of names) expect((await runner.preparePlugin(asked(name))).socket).toBe(sockets.get(name));
    await expect(runner.preparePlugin({ ...asked(two), restartInUse: true })).rejects.toMatchObject({
      reason: "PLUGIN_INSTANCE_EXISTS",
      message: expect.stringContaining(`plugin ${two} is prepared in allocation ${allocation} with restartInUse false`),
    });
    const firstStep = async (plugin: string) => {
      for await (const step of runner.supervisePlugin({ allocation, plugin })) return step;
      return undefined;
    };
    await expect(firstStep("")).rejects.toMatchObject({
      reason: "INVALID_ARGUMENT",
      violations: [{ field: "plugin", description: expect.stringContaining(names.join(", ")) }],
    });
    expect((await firstStep(two))?.fingerprint?.plugin).toBe(two);

    // All of the allocation, or none of it.
    expect(await releaseWorkload(cluster, "w-v-one")).toMatchObject([{}]);
    await expect(runner.stopPlugin({ allocation })).rejects.toMatchObject({
      reason: "PLUGIN_IN_USE",
      metadata: { plugin: two, allocation, count: "1" },
    });
    expect(await claim("v-one")).toBe("ACTIVE");
    await releaseWorkload(cluster, "w-v-one");
    await removeVolume(cluster, "v-one");
    expect(await runner.stopPlugin({ allocation, plugin: one })).toEqual({ stopped: true, calls: [] });
    await until("one of them to be gone", async () => (await known()).join() === both[1]);

    await releaseWorkload(cluster, "w-v-two");
    expect(await claim("v-two")).toBe("ACTIVE");
    await releaseWorkload(cluster, "w-v-two");
    await removeVolume(cluster, "v-two");
    expect(await runner.stopPlugin({ allocation, plugin: two })).toEqual({ stopped: true, calls: [] });
    await until("both to be gone", async () => (await known()).length === 0);
    expect(await mountsUnder(node.rootDir)).toEqual([]);
    for (const backend of backends.values()) {
      const { state, violations } = await backend.client.snapshot();
      expect(violations).toEqual([]);
      expect(state.volumes.size).toBe(0);
    }
  });
});
