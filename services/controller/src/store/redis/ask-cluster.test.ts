import { type AddressInfo, createServer, type Server } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { askCluster, claimsIn } from "./ask-cluster.ts";
import { newestOf } from "./ask-place.ts";
import { parseRedisAddress } from "./redis-address.ts";

const asked = { host: "seed", port: 7000 };
const nodes = (...lines: readonly string[]): string => `${lines.join("\n")}\n`;

describe("what a node says of its cluster", () => {
  it("names the master of a slot by its name where it has one, and by the address that was asked where it knows none", () => {
    const said = nodes(
      "a 10.0.0.1:6379@16379 master - 0 1 7 connected 0-99 200",
      "b 10.0.0.2:6380@16380,redis-b.internal slave a 0 1 7 connected",
      "c :7000@17000 myself,master - 0 0 2 connected 100-199 300-16383 [100->-a]",
      "d fd00::4:6379@16379,redis-d.internal,shard-id=5 master,fail? - 0 1 3 disconnected 201-299",
      "e :0@0 master,noaddr - 0 0 9 disconnected 0-99",
    );
    expect(claimsIn(said, 0, asked)).toEqual([{ place: { host: "10.0.0.1", port: 6379 }, epoch: 7, down: false }]);
    expect(claimsIn(said, 200, asked)).toMatchObject([{ place: { host: "10.0.0.1" } }]);
    // It has the slot until the move is over.
    expect(claimsIn(said, 100, asked)).toEqual([{ place: { host: "seed", port: 7000 }, epoch: 2, down: false }]);
    expect(claimsIn(said, 250, asked)).toMatchObject([
      { place: { host: "redis-d.internal", port: 6379 }, down: false },
    ]);
    expect(claimsIn(nodes("d [fd00::4]:1@2 master,fail - 0 1 3 x 5"), 5, asked)).toMatchObject([{ down: true }]);
    expect(claimsIn(nodes("d fd00::4:1@2 master - 0 1 3 x 5"), 5, asked)).toMatchObject([
      { place: { host: "fd00::4" } },
    ]);
    expect(claimsIn(said, 16_383, asked)).toMatchObject([{ epoch: 2 }]);
    expect(claimsIn(nodes("a 10.0.0.1:6379@16379 master - 0 1 7 connected 0-99"), 100, asked)).toEqual([]);
  });

  it("is believed by its epoch: a view from before a failover counts less", () => {
    const old = { place: asked, epoch: 3, down: false };
    const now = { place: asked, epoch: 12, down: false };
    expect(newestOf([old, now, old])).toBe(now);
    expect(newestOf([now, old])).toBe(now);
    expect(newestOf([])).toBeUndefined();
  });
});

describe("the nodes of an address", () => {
  const seeds: Server[] = [];
  afterEach(async () => {
    await Promise.all(seeds.splice(0).map((seed) => new Promise((closed) => seed.close(closed))));
  });

  /** Answers each question so, so much later. */
  const seed = async (reply: string, laterMs = 0): Promise<number> => {
    const server = createServer((socket) => {
      socket.on("data", () => setTimeout(() => socket.write(reply), laterMs));
      socket.on("error", () => undefined);
    });
    seeds.push(server);
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    return (server.address() as AddressInfo).port;
  };
  const view = (...lines: readonly string[]): string => {
    const text = nodes(...lines);
    return `$${text.length}\r\n${text}\r\n`;
  };
  const ask = async (...ports: readonly number[]): Promise<string> => {
    const address = parseRedisAddress(`redis+cluster://${ports.map((port) => `127.0.0.1:${port}`).join(",")}`);
    if (address.kind !== "cluster") throw new Error("no cluster");
    return await askCluster({ address, access: {}, slot: 5, timeoutMs: 2000 }).then(
      ({ host, port }) => `${host}:${port}`,
      (error: Error) => error.message,
    );
  };
  const before = view("a 10.0.0.1:1@2 master - 0 1 3 connected 0-16383");
  const after = view("b 10.0.0.2:1@2 master - 0 1 4 connected 0-16383");

  it("are heard in the majority, not the first alone: it may not have seen a failover", async () => {
    expect(await ask(await seed(before), await seed(after, 50), await seed(after, 50))).toBe("10.0.0.2:1");
    expect(await ask(await seed(after), await seed(before, 50), await seed(before, 50))).toBe("10.0.0.2:1");
  });

  it("are believed where only a minority answers: the node itself is asked, too", async () => {
    expect(await ask(await seed(before), 1, 2)).toBe("10.0.0.1:1");
  });

  it("say what has to be done where none of them leads on", async () => {
    const down = view("a 10.0.0.1:1@2 master,fail - 0 1 3 connected 0-16383");
    expect(await ask(await seed(down))).toMatch(/holds the master of slot 5 at 10\.0\.0\.1:1 to be down: wait/);
    const uncovered = view("a 10.0.0.1:1@2 master - 0 1 3 connected 0-4 6-16383");
    expect(await ask(await seed(uncovered))).toMatch(/no node of the cluster serves slot 5, .*give the slot back/);
    const single = await ask(await seed("-ERR This instance has cluster support disabled\r\n"));
    expect(single).toMatch(/cluster support disabled: it is no node of a cluster: name it with redis:\/\//);
  });
});
