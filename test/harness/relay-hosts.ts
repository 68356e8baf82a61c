/**
 * The hosts of nodes that each have a controller half of the plugin. Their power can be cut: nobody is told that their connections ended, and
 * nothing is mounted there any more. The agent of the next boot runs in the test's own process, which tells it another boot id.
 */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { type App, createApp } from "@holdfast/node-agent/app";
import { configSchema } from "@holdfast/node-agent/config";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { loadConfig } from "@holdfast/shared/config/config";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import type { SimPluginProcess } from "@holdfast/sim-plugin/processes";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import type { Cluster } from "./cluster.ts";
import { mountsUnder } from "./scenario.ts";

const portOf = (address: string): number => Number(address.split(":").pop());

interface Host {
  /** To each of the controllers. */
  readonly ways: readonly TcpProxy[];
  half: SimPluginProcess;
}

export const startRelayHosts = async (cluster: Cluster, nodes: readonly string[]) => {
  const controllers = [cluster.agentAddress, cluster.second.agentAddress];
  const hosts = new Map<string, Host>();
  const host = (node: string): Host => {
    const found = hosts.get(node);
    if (found === undefined) throw new Error(`${node} has no controller half`);
    return found;
  };
  const startAgent = async (node: string): Promise<void> => {
    const by = host(node).ways.map(({ port }) => `127.0.0.1:${port}`);
    await cluster.node(node).startAgent({ HOLDFAST_CONTROLLERS: by.join() });
  };
  for (const node of nodes) {
    const ways = await Promise.all(controllers.map((to) => startTcpProxy({ port: portOf(to) })));
    hosts.set(node, { ways, half: await cluster.node(node).startControllerHalf() });
    await cluster.node(node).agent().kill("SIGTERM");
    await startAgent(node);
  }

  return {
    half: (node: string): SimPluginProcess => host(node).half,
    /** Again, on the state directory of the one before. */
    startAgent,
    async powerCut(name: string): Promise<void> {
      const node = cluster.node(name);
      for (const way of host(name).ways) way.blackHole(true);
      for (const dead of [node.agent(), host(name).half, node.plugin()]) await dead.kill("SIGKILL");
      const lost = (await mountsUnder(node.rootDir)).map((line) => line.split(" ")[4] ?? "");
      for (const at of lost.toReversed()) spawnSync("umount", ["--lazy", at]);
      await cluster.backend.client.reboot(name);
    },
    /** An image brings no state directory, and another machine id. The agent is not started yet. */
    async boot(name: string, { imaged }: { readonly imaged: boolean }): Promise<App> {
      const node = cluster.node(name);
      await node.startPlugin();
      host(name).half = await node.startControllerHalf();
      const otherMachine = `${machineIdFile()}-${randomBytes(4).toString("hex")}`;
      if (imaged) {
        await rm(node.stateDir, { recursive: true });
        await writeFile(otherMachine, `${randomBytes(16).toString("hex")}\n`);
      }
      const app = createApp(
        loadConfig(configSchema, {
          HOLDFAST_NODE: name,
          HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
          HOLDFAST_CONTROLLERS: controllers.join(),
          HOLDFAST_STATE_DIR: node.stateDir,
          HOLDFAST_MACHINE_ID_FILE: imaged ? otherMachine : machineIdFile(),
          HOLDFAST_ROOT_DIR: node.rootDir,
          HOLDFAST_PLUGIN_DIR: path.dirname(node.plugin().socketPath),
        }),
        { log: createMemoryLogger(), bootId: `boot-${randomBytes(4).toString("hex")}` },
      );
      return {
        ...app,
        async stop() {
          await app.stop();
          await rm(otherMachine, { force: true });
        },
      };
    },
    /** Its agent runs as a process again, and what it sends arrives. */
    async asBefore(name: string): Promise<void> {
      for (const way of host(name).ways) {
        way.cut();
        way.blackHole(false);
      }
      await startAgent(name);
    },
    async stop(): Promise<void> {
      await Promise.all([...hosts.values()].flatMap(({ ways }) => ways).map((way) => way.close()));
    },
  };
};

export type RelayHosts = Awaited<ReturnType<typeof startRelayHosts>>;
