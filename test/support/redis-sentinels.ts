import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { freePort, launchRedis, type RedisProcess, type RedisServer, startRedisServer } from "./redis-server.ts";

/** A master with two replicas, and three sentinels that watch over them; all on loopback. */
export interface RedisSentinels {
  readonly master: RedisServer;
  readonly replicas: readonly RedisServer[];
  readonly ports: readonly number[];
  /** As a user with these rules on each server; answers the URL that names the sentinels. */
  addUser(name: string, rules: readonly string[]): Promise<string>;
  /** Until both replicas have what the master has. */
  replicated(): Promise<void>;
  /** The server that says of itself that it is the master, once a sentinel says so too. */
  settled(except?: RedisServer): Promise<RedisServer>;
  stop(): Promise<void>;
}

export const masterName = "holdfast";

const startSentinel = async (dir: string, port: number, masterPort: number): Promise<RedisProcess> => {
  const file = path.join(dir, `sentinel-${port}.conf`);
  const lines = [
    `port ${port}`,
    "bind 127.0.0.1",
    `dir ${dir}`,
    `sentinel monitor ${masterName} 127.0.0.1 ${masterPort} 2`,
    `sentinel down-after-milliseconds ${masterName} 600`,
    `sentinel failover-timeout ${masterName} 3000`,
    `sentinel parallel-syncs ${masterName} 2`,
  ];
  await writeFile(file, `${lines.join("\n")}\n`);
  return await launchRedis([file, "--sentinel"], port);
};

/** Sentinels name a killed master until they have chosen another one: it is asked like the others, and is gone. */
const roleOf = async (server: RedisServer): Promise<string> => {
  const info = await server
    .admin()
    .then((admin) => admin.info("replication"))
    .catch(() => "");
  return /role:(\w+)/.exec(info)?.[1] ?? "gone";
};

const until = async (what: string, met: () => Promise<boolean>): Promise<void> => {
  for (let attempt = 0; attempt < 1200; attempt += 1) {
    if (await met()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`it never came: ${what}`);
};

export const startRedisSentinels = async (): Promise<RedisSentinels> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-sentinels-"));
  const config = { "repl-diskless-sync-delay": "0", "min-replicas-to-write": "1" };
  const servers = await Promise.all([1, 2, 3].map(() => startRedisServer(config)));
  const [master, ...replicas] = servers;
  if (master === undefined) throw new Error("no master");
  for (const replica of replicas) await (await replica.admin()).call("REPLICAOF", "127.0.0.1", master.port);
  const admin = await master.admin();
  await until("two replicas", async () => {
    const states = (await admin.info("replication")).match(/state=online/g) ?? [];
    return states.length === replicas.length;
  });
  const ports = await Promise.all([1, 2, 3].map(freePort));
  const sentinels = await Promise.all(ports.map((port) => startSentinel(dir, port, master.port)));
  const known = async (sentinel: RedisProcess): Promise<boolean> => {
    const fields = (await (await sentinel.admin()).call("SENTINEL", "MASTER", masterName)) as string[];
    const count = (name: string): string => fields[fields.indexOf(name) + 1] ?? "";
    return count("num-slaves") === "2" && count("num-other-sentinels") === "2";
  };
  await until("sentinels that know each other", async () => (await Promise.all(sentinels.map(known))).every(Boolean));

  return {
    master,
    replicas,
    ports,
    async addUser(name, rules) {
      for (const server of servers) await server.addUser(name, rules);
      return `redis+sentinel://${name}:${name}@${ports.map((port) => `127.0.0.1:${port}`).join(",")}/${masterName}`;
    },
    replicated: async () => void (await until("replication", async () => (await admin.wait(2, 1000)) === 2)),
    async settled(except) {
      let found: RedisServer | undefined;
      await until("a master that the sentinels agree on", async () => {
        const told = await Promise.all(
          sentinels.map(async (one) => (await one.admin()).call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)),
        );
        const said = new Set(told.map((address) => Number((address as string[])[1])));
        found = servers.find((server) => server !== except && said.size === 1 && said.has(server.port));
        return found !== undefined && (await roleOf(found)) === "master";
      });
      if (found === undefined) throw new Error("no master");
      return found;
    },
    async stop() {
      await Promise.all(sentinels.map((sentinel) => sentinel.kill()));
      await Promise.all(servers.map((server) => server.stop()));
      await rm(dir, { recursive: true, force: true });
    },
  };
};
