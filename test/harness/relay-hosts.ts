/**
 * The hosts of nodes that each have a controller half of the plugin. Their power can be cut: nobody is told that their connections ended, and
 * nothing is mounted there any more. The agent of the next boot runs in the test's own process, which tells it another boot id.
 */
import { spawnSync } from "node:child_process";
import type { App } from "@holdfast/node-agent/app";
import type { SimPluginProcess } from "@holdfast/sim-plugin/processes";
import type { Cluster } from "./cluster.ts";
import { openLateWays } from "./late-ways.ts";
import { nextBoot } from "./next-boot.ts";
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
      return await nextBoot(node, {
        controllers: [cluster.agentAddress, cluster.second.agentAddress].join(),
        imaged,
      });
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
