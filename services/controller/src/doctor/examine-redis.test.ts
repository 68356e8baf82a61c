/** What the doctor finds at a Redis Cluster; the replicas of a Redis are in examine-replicas.test.ts, the rest in test/cli/doctor.test.ts. */
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RedisCluster, startRedisCluster } from "../../../../test/support/redis-cluster.ts";
import { controllerRules } from "../store/redis/acl.ts";
import { hashSlot } from "../store/redis/hash-slot.ts";
import { createStoreFixture, type StoreFixture } from "../store/redis/redis-fixture.ts";
import { createRedisKeys } from "../store/redis/redis-keys.ts";
import { examineRedis } from "./examine-redis.ts";

describe("the doctor at a Redis Cluster", () => {
  let cluster: RedisCluster;
  let stores: StoreFixture;
  beforeAll(async () => {
    cluster = await startRedisCluster({ others: 1 });
    stores = createStoreFixture(cluster);
    await (await stores.open()).close();
  });
  afterAll(() => stores?.stop());

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

  it("looks at the master of the store's shard and at its replicas", async () => {
    const found = await examined(await stores.restricted("test"));
    expect(found).toMatchObject([{ id: "store", level: "ok", message: expect.stringContaining("master, 2 replicas") }]);
    await (await cluster.master.admin()).call("CONFIG", "SET", "min-replicas-to-write", "0");
    expect(await examined(cluster.url)).toMatchObject([
      { id: "store-volatile", subject: expect.stringContaining("min-replicas-to-write") },
    ]);
    await (await cluster.master.admin()).call("CONFIG", "SET", "min-replicas-to-write", "1");
  });

  it("tells of a user that may not ask for the slot, and of a node that does not have it", async () => {
    const mute = await cluster.addUser("mute", [...controllerRules("test"), "-cluster|nodes"]);
    expect(await examined(mute)).toMatchObject([{ id: "store-acl", cure: expect.stringContaining("+cluster|nodes") }]);
    const [other = cluster.master] = cluster.others;
    expect(await examined(other.url)).toMatchObject([
      { id: "store-cluster", message: expect.stringContaining("redis+cluster://") },
    ]);
    const slot = hashSlot(createRedisKeys("test").meta);
    for (const node of [cluster.master, other]) await (await node.admin()).call("CLUSTER", "DELSLOTS", slot);
    expect(await examined(cluster.url)).toMatchObject([
      { id: "store-cluster", message: expect.stringMatching(/slot/i) },
    ]);
  });
});
