/** Two nodes with csi-driver-host-path on each, as one plugin of local storage, found by its socket or hosted by a runtime; on a real Redis. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { AssumedExpansion, PluginRole, PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { buildHostPath } from "../support/host-path-driver.ts";
import { startRedisServer } from "../support/redis-server.ts";
import { type Cluster, startCluster } from "./cluster.ts";
import { createHostPathProcess, type HostPathProcess } from "./host-path-process.ts";
import { detachLoopsUnder } from "./loop-files.ts";
import { nodes } from "./node-local.ts";
import { seenFrom } from "./plugin-driver.ts";
import { persistently } from "./scenario.ts";

export const hostPathPlugin = "hostpath.csi.k8s.io";
export type HostPathNode = (typeof nodes)[number];

export interface HostPathWorldOptions {
  readonly hosted: boolean;
  readonly controllers: 1 | 2;
  readonly controllerEnv?: Readonly<Record<string, string>>;
  readonly agentEnv?: Readonly<Record<string, string>>;
}

export interface HostPathWorld {
  readonly cluster: Cluster;
  /** The cluster as the callers of each controller see it. */
  readonly sides: readonly Cluster[];
  driver(node: HostPathNode): HostPathProcess;
  /** Once no volume is left: the runtime stops the plugin, if it hosts it. */
  stopHosting(node: HostPathNode): Promise<boolean>;
  stop(): Promise<void>;
}

/** What a runtime asks of the agent of its node. */
const openRuntime = (address: string) => {
  const channel = createGrpcChannel(address, { ownConnection: true });
  const identity = { role: "local", name: "runtime" } as const;
  const client = createGrpcClient(PluginHostServiceDefinition, channel, { log: createMemoryLogger(), identity });
  return { client, close: () => channel.close() };
};

/** It grows what is mounted, and does not say so. */
const assumeOnline = async (address: string): Promise<void> => {
  const channel = createGrpcChannel(address);
  const identity = { role: "operator", name: "test" } as const;
  const plugins = createGrpcClient(PluginServiceDefinition, channel, { log: createMemoryLogger(), identity });
  const profile = { assumedExpansion: AssumedExpansion.ASSUMED_EXPANSION_ONLINE };
  await plugins.setPluginProfile({ name: hostPathPlugin, profile });
  channel.close();
};

export const startHostPathWorld = async (options: HostPathWorldOptions): Promise<HostPathWorld> => {
  const { hosted, controllers, controllerEnv = {} } = options;
  const binary = await buildHostPath();
  const states = await mkdtemp(path.join(tmpdir(), "hf-hp-"));
  const redis = await startRedisServer();
  const drivers = new Map<string, HostPathProcess>();
  const runtimes = new Map<string, ReturnType<typeof openRuntime>>();
  let cluster: Cluster | undefined;
  const startDriver = async (node: string, socket: string): Promise<void> => {
    const driver = createHostPathProcess({ binary, node, stateDir: path.join(states, node), socket });
    drivers.set(node, driver);
    await driver.start();
  };
  const stop = async (): Promise<void> => {
    for (const { close } of runtimes.values()) close();
    await cluster?.stop();
    for (const driver of drivers.values()) await driver.stop();
    await redis.stop();
    await detachLoopsUnder(states);
    await rm(states, { recursive: true, force: true });
  };
  try {
    cluster = await startCluster({
      nodes,
      store: redis.url,
      ...(controllers === 2 ? { second: {} } : {}),
      controllerEnv,
      agentEnv: { HOLDFAST_PLUGIN_HEALTH_INTERVAL: "2s", ...options.agentEnv },
      ...(hosted
        ? {
            hostedPlugin: async (node, address) => {
              const runtime = openRuntime(address);
              runtimes.set(node, runtime);
              const { socket } = await runtime.client.preparePlugin({
                plugin: hostPathPlugin,
                allocation: `alloc-${node}`,
                role: PluginRole.PLUGIN_ROLE_MONOLITH,
                hostFilesystem: true,
              });
              await startDriver(node, socket);
            },
          }
        : { nodePlugin: (node, pluginDir) => startDriver(node, path.join(pluginDir, "csi.sock")) }),
    });
  } catch (error) {
    await stop();
    throw error;
  }
  const started = cluster;
  await assumeOnline(started.address);
  return {
    cluster: started,
    sides: controllers === 2 ? [started, seenFrom(started, "second")] : [started],
    driver: (node) => {
      const found = drivers.get(node);
      if (found === undefined) throw new Error(`there is no driver on ${node}`);
      return found;
    },
    stopHosting: async (node) => {
      const runtime = runtimes.get(node);
      if (runtime === undefined) return true;
      const { stopped } = await persistently(`the plugin of ${node} to stop`, () =>
        runtime.client.stopPlugin({ allocation: `alloc-${node}`, waitFor: { seconds: 10n, nanos: 0 } }),
      );
      return stopped;
    },
    stop,
  };
};
