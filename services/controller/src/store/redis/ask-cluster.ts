/**
 * Which node of a Redis Cluster is the master of the store's slot, by the word of the nodes in the address.
 *
 * A majority of them is heard where it answers, and otherwise all that do: the epoch of a claim to a slot says which is the newest, and the
 * node itself is asked before anything is sent to it (greet-server.ts). A view that is out of date leads to a node that refuses, never
 * to one that is believed.
 */
import { askPlace, firstOf, majorityOf, newestOf } from "./ask-place.ts";
import type { RedisAccess } from "./redis-access.ts";
import { type ClusterAddress, type Place, showPlace } from "./redis-address.ts";

export interface AskClusterOptions {
  readonly address: ClusterAddress;
  readonly access: RedisAccess;
  /** Of the store's keys; they share one. */
  readonly slot: number;
  /** For each of the nodes; they are asked all at once. */
  readonly timeoutMs: number;
}

interface Claim {
  readonly place: Place;
  readonly epoch: number;
  /** The cluster holds it to be dead. */
  readonly down: boolean;
}

const covers = (range: string, slot: number): boolean => {
  const [first = "", last = first] = range.split("-");
  return Number(first) <= slot && slot <= Number(last);
};

/** `ip:port@bus,hostname`. The name, where it has one: certificates bear names. A node that was never met knows no address of its own. */
const placeOf = (text: string, asked: Place): Place | undefined => {
  const [, ip = "", port = "0", name = ""] = /^(.*):(\d+)@\d+(?:,([^,=]*))?(?:,.*)?$/.exec(text) ?? [];
  const host = [name, ip, asked.host].find((it) => it !== "") ?? asked.host;
  return port === "0" ? undefined : { host, port: Number(port) };
};

/** One line of CLUSTER NODES, if that node claims the slot. A slot on its way stands in brackets besides, as no number: it is still here. */
const claimOf = (line: string, slot: number, asked: Place): Claim | undefined => {
  const [, at = "", flags = "", , , , epoch = "0", , ...ranges] = line.trim().split(" ");
  const place = placeOf(at, asked);
  if (place === undefined || !ranges.some((range) => covers(range, slot))) return undefined;
  return { place, epoch: Number(epoch), down: flags.split(",").includes("fail") };
};

export const claimsIn = (nodes: string, slot: number, asked: Place): readonly Claim[] =>
  nodes.split("\n").flatMap((line) => claimOf(line, slot, asked) ?? []);

/** What a node's refusal means, with the cure. */
const meaningOf = (message: string): string => {
  if (message.includes("cluster support disabled"))
    return `${message}: it is no node of a cluster: name it with redis://, or its sentinels with redis+sentinel://`;
  if (message.includes("NOPERM")) return `${message}: its user needs +cluster|nodes`;
  return message;
};

export const askCluster = async ({ address, access, slot, timeoutMs }: AskClusterOptions): Promise<Place> => {
  const { places, tls, username, password } = address;
  const login = {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  };
  const asked = places.map(async (place) =>
    claimsIn(String(await askPlace({ place, tls, login, access, timeoutMs }, "CLUSTER", "NODES")), slot, place),
  );
  const views = await firstOf(asked, majorityOf(places)).catch(async () => {
    const settled = await Promise.allSettled(asked);
    const answered = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    if (answered.length > 0) return answered;
    const why = settled.flatMap((one) => (one.status === "rejected" ? [meaningOf((one.reason as Error).message)] : []));
    throw new Error(
      `none of the nodes of the cluster in HOLDFAST_STORE says where slot ${slot} of the store is (${why.join("; ")}): start them, or correct HOLDFAST_STORE`,
    );
  });
  const newest = newestOf(views.flat());
  if (newest === undefined)
    throw new Error(
      `no node of the cluster serves slot ${slot}, in which the store is: look at redis-cli --cluster check, and give the slot back to the node that has its keys`,
    );
  if (newest.down)
    throw new Error(
      `the cluster holds the master of slot ${slot} at ${showPlace(newest.place)} to be down: wait for its failover; where no replica is left start it again`,
    );
  return newest.place;
};
