/** Security (b): a socket that announces another plugin's name gets no call, and so no secret, until a person says so. Over real processes. */
import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { type Instance, PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { PluginHealth, PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { type SimPluginProcess, startSimPlugin } from "@holdfast/sim-plugin/processes";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { claimVolume, makeVolume, namespace, plugin, releaseWorkload, stateName } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const holdfast = path.resolve(import.meta.dirname, "../../packages/cli/src/main.ts");
/** What is asked of every plugin before it is known who it is, and to see how it is; none of it carries a secret. */
const questions = /^(Probe|GetPlugin|NodeGet(Info|Capabilities)|(Group)?ControllerGetCapabilities)/;

describe.skipIf(!root)("security b: the name of a plugin belongs to the socket that had it first", () => {
  let cluster: Cluster;
  let channel: GrpcChannel;
  const posing: SimPluginProcess[] = [];

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
    channel = createGrpcChannel(cluster.node("node-a").localAddress);
  });
  afterAll(async () => {
    channel?.close();
    for (const one of posing) await one.stop();
    await cluster?.stop();
  });

  const pose = async (role: "node" | "controller", socket: string): Promise<void> => {
    const common = {
      dir: path.dirname(socket),
      socket,
      backend: cluster.backend.socketPath,
      instance: `posing ${role}`,
    };
    const dataDir = path.join(cluster.dir, "node-a-data");
    posing.push(
      await startSimPlugin(
        role === "node" ? { ...common, role, node: "node-a", realMounts: true, dataDir } : { ...common, role },
      ),
    );
    await until(`the ${role} plugin that poses to be asked who it is`, async () =>
      (await cluster.backend.client.record()).some(
        (call) =>
          call.instance === `posing ${role}` &&
          call.method === `${role === "node" ? "Node" : "Controller"}GetCapabilities`,
      ),
    );
  };
  const orders = async (): Promise<readonly string[]> =>
    (await cluster.backend.client.record())
      .filter(({ method, instance }) => instance.startsWith("posing") && !questions.test(method))
      .map(({ method, instance }) => `${instance}: ${method}`);
  const instanceAt = async (socket: string): Promise<Instance | undefined> => {
    const client = createGrpcClient(PluginHostServiceDefinition, channel, { log: createMemoryLogger() });
    const { instances } = await client.listInstances({});
    return instances.find(({ fingerprint }) => fingerprint?.socket === socket);
  };
  const operator = () => {
    const opened = createGrpcChannel(cluster.address);
    onTestFinished(() => opened.close());
    return createGrpcClient(PluginServiceDefinition, opened, {
      log: createMemoryLogger(),
      identity: { role: "operator", name: "o1" },
    });
  };
  const accept = (command: string): void => {
    const args = command.replace("<why>", "moved").split(" ").slice(1);
    const { status, stderr } = spawnSync(process.execPath, [holdfast, "--address", cluster.address, ...args], {
      encoding: "utf8",
    });
    expect([status, stderr]).toEqual([0, ""]);
  };

  it("impostors beside and after the true plugin get nothing, over restarts; the true one goes on by itself; accept moves the name", async () => {
    const node = cluster.node("node-a");
    const onNode = path.join(cluster.dir, "node-a-p", "posing.sock");
    const beside = path.join(cluster.dir, "cp", "posing.sock");
    await pose("controller", beside);
    await pose("node", onNode);
    await until("the instance on the node to be told", async () => (await instanceAt(onNode))?.plugin === plugin);

    await makeVolume(cluster, "one");
    expect(stateName(await claimVolume(cluster, "one"))).toBe("ACTIVE");
    await releaseWorkload(cluster, "w-one");
    expect(await orders()).toEqual([]);
    expect(await instanceAt(onNode)).toMatchObject({
      current: false,
      fingerprint: {
        health: PluginHealth.PLUGIN_HEALTH_UNHEALTHY,
        blocked: { reason: "PLUGIN_IMPOSTOR", message: expect.stringContaining(onNode) },
      },
    });

    // The true ones are away, and who served a name before is known from the disk only.
    await node.plugin().stop();
    await cluster.controllerPlugin().stop();
    await node.agent().kill("SIGKILL");
    await cluster.controller().kill("SIGKILL");
    await Promise.all([cluster.startController(), node.startAgent()]);
    await until("the impostor to be seen again", async () => (await instanceAt(onNode))?.plugin === plugin);
    const { claims } = await cluster.claims
      .createClaims({
        namespace,
        workload: "w-two",
        node: "node-a",
        claims: [{ volume: "one" }],
        queue: { enabled: true },
      })
      .catch(() => ({ claims: [] }));
    expect(claims.map(stateName)).not.toContain("ACTIVE");
    expect(await orders()).toEqual([]);

    // The same path and owner: no person is needed.
    await cluster.startControllerPlugin();
    await node.startPlugin();
    await until("the true plugin to serve", async () => {
      const claim = await claimVolume(cluster, "one", { workload: "w-two" }).catch(() => undefined);
      return claim !== undefined && stateName(claim) === "ACTIVE";
    });
    await releaseWorkload(cluster, "w-two");
    expect(await orders()).toEqual([]);

    // The driver is moved for good: the messages tell the very commands.
    await node.plugin().stop();
    await cluster.controllerPlugin().stop();
    const told = `${(await instanceAt(onNode))?.fingerprint?.blocked?.message}`;
    accept(/holdfast plugin accept .* --reason <why>/.exec(told)?.[0] ?? told);
    const besideTold = cluster.controller().output();
    expect(besideTold).toContain(`holdfast plugin accept ${plugin} ${beside} --reason <why>`);
    await operator().acceptPlugin({ plugin, socket: beside, reason: "moved" });
    await until("the moved plugin to serve", async () => {
      const claim = await claimVolume(cluster, "one", { workload: "w-three" }).catch(() => undefined);
      return claim !== undefined && stateName(claim) === "ACTIVE";
    });
    await releaseWorkload(cluster, "w-three");
    expect(new Set(await orders())).toContain("posing node: NodeStageVolume");
    expect(new Set(await orders())).toContain("posing controller: ControllerPublishVolume");
    const kept = await readFile(path.join(node.stateDir, "plugin-bindings.json"), "utf8");
    expect(JSON.parse(kept).plugins[plugin].map(({ socket }: { socket: string }) => socket)).toEqual([onNode]);
    const { violations } = await cluster.backend.client.snapshot();
    expect(violations).toEqual([]);
  });
});
