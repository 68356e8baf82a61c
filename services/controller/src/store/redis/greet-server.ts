/**
 * What is asked of each server before anything else is sent to it: which process it is, and whether it is the one that may be written to.
 * It is its own word; whoever led here may know less.
 */
import type { Redis } from "ioredis";
import { parseInfo } from "./parse-info.ts";
import type { RedisAddress } from "./redis-address.ts";

export interface GreetServerOptions {
  readonly kind: RedisAddress["kind"];
  /** For errors. */
  readonly at: string;
  /** A key of the store's slot that is never there. */
  readonly absentKey: string;
}

const roleCures: Readonly<Record<RedisAddress["kind"], string>> = {
  server: "point the address at the master, or name the sentinels with redis+sentinel://…",
  sentinel: "its sentinels are about to say so; wait",
  cluster: "the nodes of its cluster are about to say so; wait",
};

const oneNode = "the address names one node of a cluster: name several with redis+cluster://host:port,host:port,…";
const movedCures: Readonly<Record<RedisAddress["kind"], string>> = {
  server: oneNode,
  sentinel: oneNode,
  cluster: "the nodes of the cluster are about to agree on it; wait",
};

const onItsWay = "its slot is being moved to another node: the store is shut until that is over";

/** What a node of a cluster answers that does not serve the slot as a whole. */
const clusterRefusal = (kind: RedisAddress["kind"], message: string): string => {
  if (message.startsWith("MOVED")) return `does not serve the slot of the store (${message}): ${movedCures[kind]}`;
  if (/^(?:ASK|TRYAGAIN)\b/.test(message)) return `has a part of the store only (${message}): ${onItsWay}`;
  if (message.startsWith("CLUSTERDOWN"))
    return `takes nothing (${message}): look at redis-cli --cluster check: slots without a master, or most masters are not heard by it`;
  return `cannot be asked for the slot of the store: ${message}`;
};

/** The run id. */
export const greetServer = async (redis: Redis, { kind, at, absentKey }: GreetServerOptions): Promise<string> => {
  const info = parseInfo(String(await redis.info()));
  const { run_id: runId, role } = info;
  if (runId === undefined || role === undefined) throw new Error("INFO names no run_id and no role");
  if (role !== "master")
    throw new Error(`${at} is a replica of ${info["master_host"]}:${info["master_port"]}: ${roleCures[kind]}`); // C4
  if (info["cluster_enabled"] === "1")
    await redis.call("GET", absentKey).catch((error: Error) => {
      throw new Error(`${at} ${clusterRefusal(kind, error.message)}`, { cause: error }); // C5
    });
  return runId;
};
