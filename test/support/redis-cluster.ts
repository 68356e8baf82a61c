import { until } from "../harness/until.ts";
import { freePort } from "./free-port.ts";
import { type RedisServer, type ServerTls, startRedisServer } from "./redis-server.ts";
import type { RedisServers } from "./redis-servers.ts";

/**
 * A Redis Cluster on loopback. Its first shard, a master with the replicas, has all slots but one for each of the other masters: whatever
 * the cell of a store, it is there.
 */
export interface RedisCluster extends RedisServers {
  /** Masters of other shards; with the first they are the majority that chooses. */
  readonly others: readonly RedisServer[];
  /** As a user with these rules on each server; answers the URL that names the cluster. */
  addUser(name: string, rules: readonly string[]): Promise<string>;
  /** A replica takes the place of that master, which hears of no other node any more and goes on serving. There is no way back. */
  replaceUnaware(server: RedisServer): Promise<void>;
  /** Between the first two calls a slot is on its way, as `redis-cli --cluster reshard` has it for each one. */
  moveBegins(slot: number, from: RedisServer, to: RedisServer): Promise<void>;
  /** So many of its keys, or all of them. */
  moveKeys(slot: number, from: RedisServer, to: RedisServer, count?: number): Promise<void>;
  moveEnds(slot: number, from: RedisServer, to: RedisServer): Promise<void>;
}

export interface RedisClusterOptions {
  readonly others?: number;
  readonly replicas?: number;
  readonly tls?: ServerTls;
}

const slots = 16_384;
const nodeTimeoutMs = 1500;

const startNode = async (busPort: number, replicas: boolean, tls: ServerTls | undefined): Promise<RedisServer> =>
  await startRedisServer(
    {
      "cluster-enabled": "yes",
      "cluster-config-file": "nodes.conf",
      "cluster-port": String(busPort),
      "cluster-node-timeout": String(nodeTimeoutMs),
      // Also one that was cut off for long, as the only one that is left.
      "cluster-replica-validity-factor": "0",
      "cluster-allow-replica-migration": "no",
      "repl-diskless-sync-delay": "0",
      ...(replicas ? { "min-replicas-to-write": "1" } : {}),
      ...(tls === undefined ? {} : { "tls-cluster": "yes", "tls-replication": "yes" }),
    },
    tls,
  );

const call = async (server: RedisServer, ...[command, ...args]: readonly [string, ...(string | number)[]]) =>
  await (await server.admin()).call(command, ...args);

const idOf = async (server: RedisServer): Promise<string> => String(await call(server, "CLUSTER", "MYID"));

/** Which server has the first slot, as this one sees it; undefined = it does not answer. */
const ownerSeenBy = async (server: RedisServer): Promise<string | undefined> => {
  const reply = await call(server, "CLUSTER", "SLOTS").catch(() => undefined);
  const ranges = reply as readonly (readonly [number, number, readonly [string, number, string]])[] | undefined;
  return ranges?.find(([first]) => first === 0)?.[2][2];
};

export const startRedisCluster = async (options: RedisClusterOptions = {}): Promise<RedisCluster> => {
  const { others: otherCount = 2, replicas: replicaCount = 2, tls } = options;
  const count = 1 + replicaCount + otherCount;
  const busPorts = await Promise.all(Array.from({ length: count }, freePort));
  const servers = await Promise.all(
    busPorts.map((port, at) => startNode(port, replicaCount > 0 && at <= replicaCount, tls)),
  );
  const [master] = servers;
  if (master === undefined) throw new Error("no master");
  const replicas = servers.slice(1, 1 + replicaCount);
  const others = servers.slice(1 + replicaCount);
  const ids = new Map(await Promise.all(servers.map(async (server) => [server, await idOf(server)] as const)));

  /** The port by which the nodes name each other to clients. */
  const portOf = ({ port, tlsUrl }: RedisServer): number =>
    tlsUrl === undefined ? port : Number(new URL(tlsUrl).port);
  const last = slots - 1 - others.length;
  await call(master, "CLUSTER", "ADDSLOTSRANGE", 0, last);
  for (const [at, other] of others.entries()) await call(other, "CLUSTER", "ADDSLOTS", last + 1 + at);
  for (const [at, server] of servers.entries()) await call(server, "CLUSTER", "SET-CONFIG-EPOCH", at + 1);
  for (const [at, server] of servers.entries())
    if (server !== master) await call(master, "CLUSTER", "MEET", "127.0.0.1", portOf(server), busPorts[at] ?? 0);
  const told = async (server: RedisServer, wanted: RegExp): Promise<boolean> =>
    wanted.test(String(await call(server, "CLUSTER", "INFO")));
  const known = new RegExp(`cluster_slots_assigned:${slots}[^]*cluster_known_nodes:${count}\\b`);
  const allTell = async (wanted: RegExp): Promise<boolean> =>
    (await Promise.all(servers.map((server) => told(server, wanted)))).every(Boolean);
  await until("nodes that know each other", () => allTell(known));
  for (const replica of replicas) await call(replica, "CLUSTER", "REPLICATE", ids.get(master) ?? "");
  await until("replicas", async () => {
    const states = (await (await master.admin()).info("replication")).match(/state=online/g) ?? [];
    return states.length === replicas.length;
  });
  await until("a cluster that is well", () => allTell(/cluster_state:ok/));

  const named = servers.map((server) => `127.0.0.1:${portOf(server)}`).join(",");
  const scheme = tls === undefined ? "redis+cluster" : "rediss+cluster";
  const eachAnswering = async (tell: (server: RedisServer) => Promise<unknown>): Promise<void> =>
    void (await Promise.allSettled(servers.map(tell)));
  const settled = (except?: RedisServer): Promise<RedisServer> =>
    until(
      "a master that the others agree on",
      async () => {
        const said = new Set(await Promise.all(others.map(ownerSeenBy)));
        const found = servers.find((server) => server !== except && said.size === 1 && said.has(ids.get(server)));
        if (found === undefined || (await ownerSeenBy(found)) !== ids.get(found)) return undefined;
        // One that fell behind and was chosen may follow again.
        await call(found, "CONFIG", "SET", "masterauth", "");
        return found;
      },
      60_000,
    );
  return {
    master,
    replicas,
    others,
    url: `${scheme}://${named}`,
    async addUser(name, rules) {
      for (const server of servers) await server.addUser(name, rules);
      return `${scheme}://${name}:${name}@${named}`;
    },
    replicated: async () =>
      void (await until("replication", async () => {
        // On a busy host another one may have been chosen by now, of which the first would refuse to wait for its replicas.
        const current = await settled();
        return (await (await current.admin()).wait(replicas.length, 1000).catch(() => 0)) === replicas.length;
      })),
    settled,
    follow: async (server, next) =>
      void (await until("a replica", () =>
        call(server, "CLUSTER", "REPLICATE", ids.get(next) ?? "").then(
          () => true,
          () => false,
        ),
      )),
    async fallBehind(replica) {
      await call(replica, "CONFIG", "SET", "masterauth", "no master knows it");
      await call(replica, "CLIENT", "KILL", "TYPE", "master");
    },
    async replaceUnaware(server) {
      await call(server, "CONFIG", "SET", "cluster-require-full-coverage", "no");
      // What a node tells that is forgotten is not heard: the others still take this one for a node that is well.
      for (const [other, id] of ids) if (other !== server) await call(server, "CLUSTER", "FORGET", id);
      const [next = server] = replicas;
      await call(next, "CLUSTER", "FAILOVER", "TAKEOVER");
    },
    async moveBegins(slot, from, to) {
      await call(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids.get(from) ?? "");
      await call(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids.get(to) ?? "");
    },
    async moveKeys(slot, from, to, count = 1_000_000) {
      const keys = (await call(from, "CLUSTER", "GETKEYSINSLOT", slot, count)) as string[];
      if (keys.length > 0) await call(from, "MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", ...keys);
    },
    async moveEnds(slot, from, to) {
      const owned = ["CLUSTER", "SETSLOT", slot, "NODE", ids.get(to) ?? ""] as const;
      await call(to, ...owned);
      await call(from, ...owned);
      await eachAnswering((server) => call(server, ...owned));
    },
    async stop() {
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
};
