/** The processes of a cluster that a run with late answers kills and stops, and what each has to do with the calls that are open. */
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import type { SimPluginProcess } from "@holdfast/sim-plugin/processes";
import type { Cluster } from "./cluster.ts";
import type { ManagedProcess } from "./managed-process.ts";
import type { Which } from "./plugin-driver.ts";
import { plugin } from "./scenario.ts";

export interface Victim {
  readonly name: string;
  readonly pid: () => number;
  readonly exited: () => Promise<unknown>;
  /** The plugin instances whose open calls this process serves or has sent. */
  readonly partIn: readonly string[];
  /** Of these the ones to which no other process sends: its death orphans what is open there. */
  readonly sendsTo: readonly string[];
  /** Where the calls that a process has sent cannot be told by the instance: whether it waits for one. */
  readonly waits?: () => Promise<boolean>;
  readonly start: () => Promise<unknown>;
}

const nodeHalf = (cluster: Cluster, node: string): string =>
  `node ${node} at ${cluster.node(node).plugin().socketPath}`;

const ofManaged = (process: () => ManagedProcess): Pick<Victim, "pid" | "exited"> => ({
  pid: () => process().pid,
  exited: () => process().exited(),
});

const ofPlugin = (process: () => SimPluginProcess): Pick<Victim, "pid" | "exited"> => ({
  pid: () => process().pid,
  exited: () => process().exited,
});

/** Whether that controller has a call to the plugin under way. */
export const waitsFor =
  (address: string, ofPlugin = plugin) =>
  async (): Promise<boolean> => {
    const channel = createGrpcChannel(address);
    try {
      const client = createGrpcClient(PluginServiceDefinition, channel, { log: createMemoryLogger() });
      const { plugin: found } = await client.getPlugin({ name: ofPlugin }, { deadlineMs: 2_000 });
      return (found?.calls?.running ?? 0) > 0;
    } catch {
      return false;
    } finally {
      channel.close();
    }
  };

export interface VictimsOptions {
  readonly nodes: readonly string[];
  readonly controllers: 2 | 3;
  /** The nodes on which controller halves run; beside the controllers when there is none. */
  readonly halves: ReadonlyMap<string, SimPluginProcess>;
  /** What the agent of a node is started with. */
  readonly agentEnv: (node: string) => Readonly<Record<string, string>>;
}

export const victimsOf = (
  cluster: Cluster,
  { nodes, controllers, halves, agentEnv }: VictimsOptions,
): readonly Victim[] => {
  const running = new Map(halves);
  const relayed = [...running.keys()];
  const half = (node: string): SimPluginProcess => {
    const found = running.get(node);
    if (found === undefined) throw new Error(`there is no controller half on ${node}`);
    return found;
  };
  const controller = (
    name: Which,
    process: () => ManagedProcess,
    start: () => Promise<unknown>,
    address: string,
  ): Victim => ({
    name: `${name} controller`,
    ...ofManaged(process),
    partIn: relayed.length > 0 ? relayed : [name],
    sendsTo: relayed.length > 0 ? [] : [name],
    ...(relayed.length > 0 ? { waits: waitsFor(address) } : {}),
    start,
  });
  const beside = (name: Which, process: () => SimPluginProcess, start: () => Promise<unknown>): Victim => ({
    name: `${name} controller's plugin`,
    ...ofPlugin(process),
    partIn: [name],
    sendsTo: [],
    start,
  });

  const others = [
    ["second", cluster.second] as const,
    ...(controllers === 3 ? [["third", cluster.third] as const] : []),
  ];
  return [
    controller("first", cluster.controller, () => cluster.startController(), cluster.address),
    ...others.map(([name, other]) => controller(name, other.process, other.start, other.address)),
    ...nodes.map((node): Victim => {
      const sendsTo = [nodeHalf(cluster, node), ...(running.has(node) ? [node] : [])];
      const { agent, startAgent } = cluster.node(node);
      return {
        name: `agent of ${node}`,
        ...ofManaged(agent),
        partIn: sendsTo,
        sendsTo,
        start: () => startAgent(agentEnv(node)),
      };
    }),
    ...nodes.map((node): Victim => {
      const { plugin: process, startPlugin: start } = cluster.node(node);
      return { name: `plugin of ${node}`, ...ofPlugin(process), partIn: [nodeHalf(cluster, node)], sendsTo: [], start };
    }),
    ...(relayed.length > 0
      ? relayed.map(
          (node): Victim => ({
            name: `controller half on ${node}`,
            ...ofPlugin(() => half(node)),
            partIn: [node],
            sendsTo: [],
            start: async () => running.set(node, await cluster.node(node).startControllerHalf()),
          }),
        )
      : [
          beside("first", cluster.controllerPlugin, cluster.startControllerPlugin),
          ...others.map(([name, other]) => beside(name, other.plugin, other.startPlugin)),
        ]),
  ];
};
