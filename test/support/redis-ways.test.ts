import { once } from "node:events";
import { connect, createServer } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import type { RedisServer } from "./redis-server.ts";
import { openRedisWays } from "./redis-ways.ts";

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** It answers each question with what sentinels, nodes of a cluster and errors of nodes say of its own address. */
const startTalker = async () => {
  const server = createServer((client) => {
    const { port } = client.address() as { readonly port: number };
    client.on("data", () =>
      client.write(
        `$9\r\n127.0.0.1\r\n$5\r\n${port}\r\n:${port}\r\nid 127.0.0.1:${port}@1${port}\r\n-MOVED 7 127.0.0.1:${port}\r\n`,
      ),
    );
    client.on("error", () => undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { port: (server.address() as { readonly port: number }).port };
};

const open = async () => {
  const { port } = await startTalker();
  const master = { port } as RedisServer;
  const url = `redis+sentinel://user:word@127.0.0.1:${port}/holdfast`;
  const ways = await openRedisWays({ url, master, replicas: [] });
  onTestFinished(() => void ways.close());
  const way = Number(/127\.0\.0\.1:(\d+)/.exec(ways.url)?.[1]);
  const ask = async (): Promise<string> => {
    const client = connect(way, "127.0.0.1");
    client.write("?");
    const answer = await Promise.race([
      once(client, "data").then(([chunk]) => String(chunk)),
      pause(300).then(() => "nothing"),
    ]);
    client.destroy();
    return answer;
  };
  return { master, port, way, ways, ask };
};

it("names the ways in the URL, and in all that the client is told", async () => {
  const { port, way, ways, ask } = await open();
  expect(way).not.toBe(port);
  expect(ways.url).toBe(`redis+sentinel://user:word@127.0.0.1:${way}/holdfast`);
  const bus = `@1${port}`;
  expect(await ask()).toBe(
    `$9\r\n127.0.0.1\r\n$5\r\n${way}\r\n:${way}\r\nid 127.0.0.1:${way}${bus}\r\n-MOVED 7 127.0.0.1:${way}\r\n`,
  );
});

it("loses what goes to a server, until it is told otherwise", async () => {
  const { master, ways, ask } = await open();
  ways.lose(master, true);
  expect(await ask()).toBe("nothing");
  ways.lose(master, false);
  expect(await ask()).toContain("MOVED");
});
