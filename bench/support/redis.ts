import { startRedisServer } from "../../test/support/redis-server.ts";

/** A Redis as production has to run it, every write on disk before its reply, and what it says of itself. */
export interface BenchRedis {
  readonly url: string;
  version(): Promise<string>;
  usedBytes(): Promise<number>;
  /** Commands served since the start, by name, as Redis itself counted them. */
  commands(): Promise<Readonly<Record<string, number>>>;
  stop(): Promise<void>;
}

export const startBenchRedis = async (): Promise<BenchRedis> => {
  const server = await startRedisServer();
  const info = async (section: string): Promise<string> => (await server.admin()).info(section);
  return {
    url: server.url,
    version: async () => /redis_version:(\S+)/.exec(await info("server"))?.[1] ?? "unknown",
    usedBytes: async () => Number(/used_memory:(\d+)/.exec(await info("memory"))?.[1] ?? Number.NaN),
    commands: async () => {
      const stats = (await info("commandstats")).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
      return Object.fromEntries([...stats].map(([, name, calls]) => [name, Number(calls)]));
    },
    stop: server.stop,
  };
};
