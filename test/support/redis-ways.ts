/** Ways of one client's own to every process that the URL leads to: what it is told of addresses names the ways, too. */
import type { RedisServer } from "./redis-server.ts";
import type { RedisServers } from "./redis-servers.ts";
import { startTcpProxy, type TcpProxy } from "./tcp-proxy.ts";

export interface RedisWays {
  readonly url: string;
  /** On, the client does not reach the server and is told nothing of it; off, its connections end, and new ones pass. */
  lose(server: RedisServer, on: boolean): void;
  /** Ends the connections to the server; new ones pass. */
  cut(server: RedisServer): void;
  close(): Promise<unknown>;
}

/** As it stands in the answers of sentinels and of nodes of a cluster, and in an error that names another node. */
const portInAnswer = /(?<=\n:?|127\.0\.0\.1:)\d{4,5}(?=\r\n|@)/g;

type Places = Pick<RedisServers, "url" | "master" | "replicas">;

export const openRedisWays = async ({ url, master, replicas }: Places): Promise<RedisWays> => {
  const ways = new Map<string, TcpProxy>();
  const shownAs = (port: string): string => String(ways.get(port)?.port ?? port);
  const translate = (chunk: Buffer): Buffer =>
    Buffer.from(chunk.toString("latin1").replaceAll(portInAnswer, shownAs), "latin1");
  const named = [...url.matchAll(/:(\d+)/g)].map(([, port = ""]) => port);
  const servers = [master, ...replicas].map(({ port }) => String(port));
  for (const port of new Set([...named, ...servers]))
    ways.set(port, await startTcpProxy({ port: Number(port), translate }));
  const wayTo = ({ port }: RedisServer): TcpProxy => {
    const way = ways.get(String(port));
    if (way === undefined) throw new Error(`there is no way to ${port}`);
    return way;
  };
  return {
    url: url.replaceAll(/(?<=:)\d+/g, shownAs),
    lose(server, on) {
      if (!on) wayTo(server).cut();
      wayTo(server).blackHole(on);
    },
    cut: (server) => wayTo(server).cut(),
    close: () => Promise.all([...ways.values()].map((way) => way.close())),
  };
};
