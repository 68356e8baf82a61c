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
import type { Cluster } from "./cluster.ts";
import { openLateWays } from "./late-ways.ts";
import { mountsUnder } from "./scenario.ts";

export const startRelayHosts = async (cluster: Cluster, nodes: readonly string[]) => {
  const ways = await openLateWays(cluster, nodes, ["first", "second"]);
  const lose = (node: string, on: boolean): void => {
    for (const way of ways.all) if (way.node === node) way.lose(on);
  };
  const startAgent = (node: string): Promise<unknown> => cluster.node(node).startAgent(ways.env(node));
  const halves = new Map<string, SimPluginProcess>();
  const half = (node: string): SimPluginProcess => {
    const found = halves.get(node);
    if (found === undefined) throw new Error(`no controller half runs on ${node}`);
    return found;
  };
  for (const node of nodes) halves.set(node, await cluster.node(node).startControllerHalf());

  return {
    half,
    /** Again, on the state directory of the one before. */
    startAgent,
    async powerCut(name: string): Promise<void> {
      const node = cluster.node(name);
      lose(name, true);
      for (const dead of [node.agent(), half(name), node.plugin()]) await dead.kill("SIGKILL");
      const lost = (await mountsUnder(node.rootDir)).map((line) => line.split(" ")[4] ?? "");
      for (const at of lost.toReversed()) spawnSync("umount", ["--lazy", at]);
      await cluster.backend.client.reboot(name);
    },
    /** An image brings no state directory, and another machine id. The agent is not started yet. */
    async boot(name: string, { imaged }: { readonly imaged: boolean }): Promise<App> {
      const node = cluster.node(name);
      await node.startPlugin();
      halves.set(name, await node.startControllerHalf());
      const otherMachine = `${machineIdFile()}-${randomBytes(4).toString("hex")}`;
      if (imaged) {
        await rm(node.stateDir, { recursive: true });
        await writeFile(otherMachine, `${randomBytes(16).toString("hex")}\n`);
      }
      const app = createApp(
        loadConfig(configSchema, {
          HOLDFAST_NODE: name,
          HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
          HOLDFAST_CONTROLLERS: [cluster.agentAddress, cluster.second.agentAddress].join(),
          HOLDFAST_STATE_DIR: node.stateDir,
          HOLDFAST_MACHINE_ID_FILE: imaged ? otherMachine : machineIdFile(),
          HOLDFAST_HOST_IDENTITY: "none",
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
      lose(name, false);
      await startAgent(name);
    },
    stop: () => ways.close(),
  };
};

export type RelayHosts = Awaited<ReturnType<typeof startRelayHosts>>;
