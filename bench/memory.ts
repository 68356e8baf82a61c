import { stat } from "node:fs/promises";
import path from "node:path";
import {
  ControllerLinkServiceDefinition,
  type DeepPartial,
  type RegisterRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { VerificationScope } from "@holdfast/shared/gen/holdfast/v1/common";
import { PluginHealth, PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { withIdentity } from "@holdfast/shared/grpc/identity";
import { createChannel, createClient } from "nice-grpc";
import { type Cluster, startCluster } from "../test/harness/cluster.ts";
import { createVolume, volumeName } from "./product.ts";
import { run } from "./support/load.ts";
import { processFigures } from "./support/process-figures.ts";
import type { BenchRedis } from "./support/redis.ts";

export interface VolumeMemory {
  readonly store: string;
  readonly volumes: number;
  /** What a controller that has just loaded them is bigger by than an empty one. */
  readonly rssPerVolume: number;
  readonly storedPerVolume: number;
  readonly createdPerSecond: number;
  readonly startMs: { readonly empty: number; readonly full: number };
}

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

/** A moment for what a start leaves behind to be collected. */
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1500));

const rssOf = async (cluster: Cluster): Promise<number> => {
  await settle();
  return (await processFigures(cluster.controller().pid)).rssBytes;
};

const restarted = async (cluster: Cluster): Promise<number> => {
  await cluster.controller().kill("SIGTERM");
  const start = performance.now();
  await cluster.startController();
  return performance.now() - start;
};

const sizeOf = async (file: string): Promise<number> => (await stat(file)).size;

export const measureVolumeMemory = async (count: number, redis: BenchRedis | undefined): Promise<VolumeMemory> => {
  const cluster = await startCluster({ nodes: [], ...(redis === undefined ? {} : { store: redis.url }) });
  try {
    const stored = (): Promise<number> => redis?.usedBytes() ?? sizeOf(path.join(cluster.dir, "store.db"));
    await createVolume(cluster, "first");
    const empty = await restarted(cluster);
    const [rss, bytes] = [await rssOf(cluster), await stored()];
    const { seconds } = await run(
      range(count),
      32,
      async (index) => void (await createVolume(cluster, volumeName(index))),
    );
    const full = await restarted(cluster);
    return {
      store: redis === undefined ? "sqlite" : "redis",
      volumes: count,
      rssPerVolume: ((await rssOf(cluster)) - rss) / count,
      storedPerVolume: ((await stored()) - bytes) / count,
      createdPerSecond: count / seconds,
      startMs: { empty, full },
    };
  } finally {
    await cluster.stop();
  }
};

export interface AgentMemory {
  readonly agents: number;
  readonly rssPerAgent: number;
  readonly registeredPerSecond: number;
}

async function* registration(name: string): AsyncIterable<DeepPartial<RegisterRequest>> {
  yield {
    header: {
      name,
      machineId: `machine-${name}`,
      bootId: `boot-${name}`,
      instance: `instance-${name}`,
      journalUid: `journal-${name}`,
      // Nobody is there; no claim is ever made for these nodes.
      address: "127.0.0.1:1",
      version: "0.1.0",
      rootDir: "/var/lib/holdfast",
      verificationScope: VerificationScope.VERIFICATION_SCOPE_HOST,
      fingerprintRevision: 1n,
    },
  };
  yield {
    plugin: {
      plugin: "sim.holdfast.dev",
      version: "1.0.0",
      instanceId: `plugin-${name}`,
      role: PluginRole.PLUGIN_ROLE_NODE,
      socket: "/run/holdfast/sim.sock",
      health: PluginHealth.PLUGIN_HEALTH_HEALTHY,
      nodeId: name,
    },
  };
}

/** Registrations and heartbeats of agents that are nothing else. */
export const measureAgentMemory = async (count: number): Promise<AgentMemory> => {
  const cluster = await startCluster({ nodes: [] });
  const channel = createChannel(cluster.address);
  try {
    const client = createClient(ControllerLinkServiceDefinition, channel);
    const rss = await rssOf(cluster);
    const { seconds } = await run(range(count), 16, async (index) => {
      const name = `fake-${index}`;
      const metadata = withIdentity(undefined, { role: "node", name });
      const { nodeEpoch } = await client.register(registration(name), { metadata });
      const instance = `instance-${name}`;
      await client.heartbeat({ node: name, instance, nodeEpoch, baseRevision: 1n, revision: 1n }, { metadata });
    });
    return { agents: count, rssPerAgent: ((await rssOf(cluster)) - rss) / count, registeredPerSecond: count / seconds };
  } finally {
    channel.close();
    await cluster.stop();
  }
};
