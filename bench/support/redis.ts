import { startRedisServer } from "../../test/support/redis-server.ts";

/** A Redis as production has to run it, every write on disk before its reply, and what it says of itself. */
export interface BenchRedis {
  readonly url: string;
  version(): Promise<string>;
  usedBytes(): Promise<number>;
  /** The commands that clients sent while `act` ran, by name; what a function does inside is part of it. */
  commandsDuring(act: () => Promise<void>): Promise<ReadonlyMap<string, number>>;
  stop(): Promise<void>;
}

/** A call of a function goes by the function's name. */
const nameOf = ([command = "", name = ""]: readonly string[]): string =>
  /^fcall/i.test(command) ? name : command.toLowerCase();

export const startBenchRedis = async (): Promise<BenchRedis> => {
  const server = await startRedisServer();
  const info = async (section: string): Promise<string> => (await server.admin()).info(section);
  return {
    url: server.url,
    version: async () => /redis_version:(\S+)/.exec(await info("server"))?.[1] ?? "unknown",
    usedBytes: async () => Number(/used_memory:(\d+)/.exec(await info("memory"))?.[1] ?? Number.NaN),
    commandsDuring: async (act) => {
      const counts = new Map<string, number>();
      const monitor = await (await server.admin()).duplicate().monitor();
      monitor.on("monitor", (_at: string, words: readonly string[], source: string) => {
        if (source === "lua") return;
        const name = nameOf(words);
        counts.set(name, (counts.get(name) ?? 0) + 1);
      });
      await act();
      // What was sent last may still be on its way to the monitor.
      await new Promise((resolve) => setTimeout(resolve, 100));
      monitor.disconnect();
      return counts;
    },
    stop: server.stop,
  };
};
