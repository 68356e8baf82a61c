import { stat } from "node:fs/promises";
import path from "node:path";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type Cluster, startCluster } from "../test/harness/cluster.ts";
import { until } from "../test/harness/until.ts";
import { createVolume, volumeName } from "./product.ts";
import { type FakeAgents, startFakeAgents } from "./support/fake-agents.ts";
import { inspected, keptBytes } from "./support/kept-bytes.ts";
import { run } from "./support/load.ts";
import { processFigures } from "./support/process-figures.ts";
import type { BenchRedis } from "./support/redis.ts";

export interface VolumeMemory {
  readonly store: string;
  readonly volumes: number;
  /** What the controller keeps of one after it made it, garbage collected; and what its process grew by. */
  readonly keptPerVolume: number;
  readonly rssPerVolume: number;
  readonly storedPerVolume: number;
  readonly createdPerSecond: number;
  readonly startMs: { readonly empty: number; readonly full: number };
}

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

interface Size {
  readonly kept: number;
  readonly rss: number;
}

const sizeOfController = async (cluster: Cluster): Promise<Size> => {
  const kept = await keptBytes(cluster.controller());
  return { kept, rss: (await processFigures(cluster.controller().pid)).rssBytes };
};

const restarted = async (cluster: Cluster): Promise<number> => {
  await cluster.controller().kill("SIGTERM");
  const start = performance.now();
  await cluster.startController();
  return performance.now() - start;
};

const notYet = (error: unknown): undefined => {
  if (isHoldfastError(error) && error.reason.startsWith("PLUGIN_NOT_")) return undefined;
  throw error;
};

const sizeOf = async (file: string): Promise<number> => (await stat(file)).size;

export const measureVolumeMemory = async (count: number, redis: BenchRedis | undefined): Promise<VolumeMemory> => {
  const store = redis === undefined ? {} : { store: redis.url };
  const cluster = await startCluster({ nodes: [], controllerEnv: inspected, ...store });
  try {
    const stored = (): Promise<number> => redis?.usedBytes() ?? sizeOf(path.join(cluster.dir, "store.db"));
    // A controller is ready before it knows its plugins.
    await until("the first volume", () => createVolume(cluster, "first").catch(notYet));
    const empty = await restarted(cluster);
    const [before, bytes] = [await sizeOfController(cluster), await stored()];
    const { seconds } = await run(
      range(count),
      32,
      async (index) => void (await createVolume(cluster, volumeName(index))),
    );
    const after = await sizeOfController(cluster);
    const full = await restarted(cluster);
    return {
      store: redis === undefined ? "sqlite" : "redis",
      volumes: count,
      keptPerVolume: (after.kept - before.kept) / count,
      rssPerVolume: (after.rss - before.rss) / count,
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
  readonly keptPerAgent: number;
  readonly rssPerAgent: number;
  readonly registeredPerSecond: number;
}

/** Registrations and streams of agents that are nothing else. */
export const measureAgentMemory = async (count: number): Promise<AgentMemory> => {
  const cluster = await startCluster({ nodes: [], controllerEnv: inspected });
  let agents: FakeAgents | undefined;
  try {
    const before = await sizeOfController(cluster);
    const start = performance.now();
    agents = await startFakeAgents([cluster.agentAddress], count);
    const seconds = (performance.now() - start) / 1_000;
    const after = await sizeOfController(cluster);
    return {
      agents: count,
      keptPerAgent: (after.kept - before.kept) / count,
      rssPerAgent: (after.rss - before.rss) / count,
      registeredPerSecond: count / seconds,
    };
  } finally {
    await agents?.stop();
    await cluster.stop();
  }
};
