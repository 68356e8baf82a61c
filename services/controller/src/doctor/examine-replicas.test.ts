import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RedisServer, startRedisServer } from "../../../../test/support/redis-server.ts";
import { type RedisFixture, startRedisFixture } from "../store/redis/redis-fixture.ts";
import { examineRedis } from "./examine-redis.ts";
import { examineReplicas, replicasOf, replicationText } from "./examine-replicas.ts";

const line = (port: number, change = "state=online,offset=42,lag=0"): string => `ip=10.0.0.2,port=${port},${change}`;
const two = { role: "master", master_replid: "abc", slave0: line(1), slave1: line(2) };
const idsOf = (info: Readonly<Record<string, string>>) =>
  examineReplicas("redis://h", info).map(({ id, subject }) => [id, subject]);

describe("replicas", () => {
  it("are wanted two", () => {
    expect(idsOf(two)).toEqual([]);
    expect(idsOf({ slave0: line(1) })).toEqual([["store-replicas", "redis://h"]]);
    expect(examineReplicas("redis://h", {})[0]).toMatchObject({
      id: "store-replicas",
      level: "warning",
      message: expect.stringContaining("no replica follows it"),
    });
    expect(replicationText(two)).toBe("master, 2 replicas, replication id abc");
  });

  it("have to keep up", () => {
    for (const change of ["state=online,offset=1,lag=11", "state=wait_bgsave,offset=0,lag=0", "state=online"])
      expect(idsOf({ ...two, slave1: line(2, change) }), change).toEqual([
        ["store-replica-late", "redis://h replica 10.0.0.2:2"],
      ]);
    expect(idsOf({ ...two, slave1: line(2, "state=online,offset=1,lag=10") })).toEqual([]);
  });
});

describe("the doctor at a real Redis", () => {
  let fixture: RedisFixture;
  let replica: RedisServer;
  beforeAll(async () => {
    [fixture, replica] = await Promise.all([startRedisFixture(), startRedisServer()]);
    await (await fixture.open()).close();
  });
  afterAll(async () => {
    await fixture?.stop();
    await replica?.stop();
  });

  const examined = async (url: string) =>
    await examineRedis({
      url,
      access: {},
      cell: "test",
      declaredDurable: false,
      clusterUid: undefined,
      log: createMemoryLogger(),
      clock: systemClock,
      random: Math.random,
    });

  it("shows its replicas, that writes do not wait for one, and what a replica is", async () => {
    const { port, url } = fixture.server;
    const alone = await examined(url);
    expect(alone.map(({ id, level }) => [id, level])).toEqual([
      ["store-replicas", "warning"],
      ["store", "ok"],
    ]);
    expect(alone[1]?.message).toMatch(/master, 0 replicas, replication id [0-9a-f]{40}/);

    const master = await fixture.server.admin();
    await master.config("SET", "min-replicas-to-write", "1");
    expect(await examined(url)).toMatchObject([
      {
        id: "store-takes-no-writes",
        message: expect.stringContaining("of its 0 connected replicas 0 keep up, and min-replicas-to-write wants 1"),
        cure: expect.stringContaining("CONFIG SET min-replicas-to-write 0"),
      },
      { id: "store-replicas" },
    ]);
    await master.config("SET", "min-replicas-to-write", "0");

    await (await replica.admin()).call("REPLICAOF", "127.0.0.1", port);
    const admin = await fixture.server.admin();
    await expect
      .poll(
        async () => replicasOf({ slave0: /^slave0:(.*)/m.exec(await admin.info("replication"))?.[1] ?? "" })[0]?.state,
        {
          timeout: 20_000,
        },
      )
      .toBe("online");
    const followed = await examined(url);
    expect(followed.map(({ id, level, subject }) => [id, level, subject])).toEqual([
      ["store-volatile", "fault", expect.stringContaining("min-replicas-to-write")],
      ["store-replicas", "warning", expect.any(String)],
    ]);
    expect(await examined(`redis://127.0.0.1:${replica.port}`)).toMatchObject([
      { id: "store-replica", message: expect.stringContaining(`is a replica of 127.0.0.1:${port}`) },
    ]);
  });
});
