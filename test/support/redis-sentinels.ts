import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { freePort } from "./free-port.ts";
import { launchRedis, type RedisProcess, type RedisServer, startRedisServer } from "./redis-server.ts";
import type { RedisServers } from "./redis-servers.ts";

/** A master with two replicas, and three sentinels that watch over them. */
export interface RedisSentinels extends Required<RedisServers> {
  /** Of the sentinels. */
  readonly ports: readonly number[];
  /** As a user with these rules on each server; answers the URL that names the sentinels. */
  addUser(name: string, rules: readonly string[]): Promise<string>;
}

const masterName = "holdfast";
/** The user that replicas and sentinels have on each server. */
const peer = "peer";

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
    `sentinel auth-user ${masterName} ${peer}`,
    `sentinel auth-pass ${masterName} ${peer}`,
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
  const config = {
    "repl-diskless-sync-delay": "0",
    "min-replicas-to-write": "1",
    masteruser: peer,
    masterauth: peer,
  };
  const servers = await Promise.all([1, 2, 3].map(() => startRedisServer(config)));
  for (const server of servers) await server.addUser(peer, ["~*", "&*", "+@all"]);
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

  const places = `${ports.map((port) => `127.0.0.1:${port}`).join(",")}/${masterName}`;
  const replicaOf = async (server: RedisServer, port: number): Promise<void> =>
    void (await (await server.admin()).call("REPLICAOF", "127.0.0.1", port));
  const settled = async (except?: RedisServer): Promise<RedisServer> => {
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
  };
  return {
    url: `redis+sentinel://${places}`,
    master,
    replicas,
    ports,
    async addUser(name, rules) {
      for (const server of servers) await server.addUser(name, rules);
      return `redis+sentinel://${name}:${name}@${places}`;
    },
    follow: (server, next) => replicaOf(server, next.port),
    fallBehind: (replica) => replicaOf(replica, 1),
    async cutOff(server, on) {
      const own = await server.admin();
      await own.call("ACL", "SETUSER", peer, on ? "off" : "on");
      // Who is not logged in is the default user, and a sentinel whose pings are refused holds the server to be dead.
      const sign = on ? "-" : "+";
      await own.call("ACL", "SETUSER", "default", ...["ping", "replicaof", "slaveof"].map((word) => `${sign}${word}`));
      if (on) await own.call("CLIENT", "KILL", "USER", peer);
    },
    replicated: async () =>
      void (await until("replication", async () => {
        // On a busy host another one may have been chosen by now, of which the first would refuse to wait for its replicas.
        const current = await settled();
        return (await (await current.admin()).wait(replicas.length, 1000).catch(() => 0)) === replicas.length;
      })),
    settled,
    async stop() {
      await Promise.all(sentinels.map((sentinel) => sentinel.kill()));
      await Promise.all(servers.map((server) => server.stop()));
      await rm(dir, { recursive: true, force: true });
    },
  };
};
