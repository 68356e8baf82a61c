import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { Redis } from "ioredis";
import { startProcess } from "../../test/harness/managed-process.ts";

export interface BenchRedis {
  readonly url: string;
  version(): Promise<string>;
  usedBytes(): Promise<number>;
  /** Commands served since the start, by name, as Redis itself counted them. */
  commands(): Promise<Readonly<Record<string, number>>>;
  stop(): Promise<void>;
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });

/** A Redis as production has to run it: every write on disk before its reply. */
export const startRedis = async (parent: string): Promise<BenchRedis> => {
  const dir = await mkdtemp(path.join(parent, "redis-"));
  const port = await freePort();
  const settings = { port: String(port), bind: "127.0.0.1", dir, appendonly: "yes", appendfsync: "always", save: "" };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  const server = startProcess({
    name: "redis",
    command: ["redis-server", ...args, "--maxmemory-policy", "noeviction"],
  });
  const client = new Redis(port, "127.0.0.1", { retryStrategy: () => 50, maxRetriesPerRequest: 200 });
  client.on("error", () => undefined);
  await client.ping();
  return {
    url: `redis://127.0.0.1:${port}`,
    version: async () => /redis_version:(\S+)/.exec(await client.info("server"))?.[1] ?? "unknown",
    usedBytes: async () => Number(/used_memory:(\d+)/.exec(await client.info("memory"))?.[1] ?? Number.NaN),
    commands: async () => {
      const stats = (await client.info("commandstats")).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
      return Object.fromEntries([...stats].map(([, name, calls]) => [name, Number(calls)]));
    },
    stop: async () => {
      client.disconnect();
      await server.kill("SIGTERM");
      await rm(dir, { recursive: true, force: true });
    },
  };
};
