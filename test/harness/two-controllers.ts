import { startRedisServer } from "../support/redis-server.ts";
import { type Cluster, startCluster } from "./cluster.ts";

export interface TwoControllers {
  readonly cluster: Cluster;
  stop(): Promise<void>;
}

/** Two controllers on one Redis, each with its own replica of a plugin whose backend judges every call when it arrives. */
export const startTwoControllers = async (nodes: readonly string[]): Promise<TwoControllers> => {
  const redis = await startRedisServer();
  try {
    const backend = { judgesArrivals: true };
    const cluster = await startCluster({ nodes, store: redis.url, second: {}, realMounts: true, backend });
    return {
      cluster,
      async stop() {
        await cluster.stop();
        await redis.stop();
      },
    };
  } catch (error) {
    await redis.stop();
    throw error;
  }
};
