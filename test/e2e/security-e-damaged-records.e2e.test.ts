/** A record that cannot be read is named and blocks what needs it; it is never "not there", and takes nothing else down. */
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { makeVolume, namespace, removeVolume, volumeStateName } from "../harness/scenario.ts";
import { startRedisServer } from "../support/redis-server.ts";

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const damaged = { reason: "RECORD_DAMAGED", kind: "data_loss", metadata: { kind: "volume", key: `${namespace}/hurt` } };

/** What a caller sees of the volume whose record was damaged, and of the one beside it. */
const expectNamedAndBlocked = async (cluster: Cluster): Promise<void> => {
  const of = { namespace, id: "hurt" };
  await expect(cluster.volumes.getVolume(of)).rejects.toMatchObject(damaged);
  await expect(makeVolume(cluster, "hurt")).rejects.toMatchObject(damaged);
  await expect(cluster.volumes.deleteVolume(of)).rejects.toMatchObject(damaged);
  const channel = createGrpcChannel(cluster.address);
  stops.push(() => channel.close());
  const repair = createGrpcClient(RepairServiceDefinition, channel, { log: createMemoryLogger() });
  const { stuck } = await repair.listStuck({});
  expect(stuck.map(({ volume, state, blocked }) => [volume, state, blocked?.reason])).toEqual([
    ["hurt", "DAMAGED", "RECORD_DAMAGED"],
  ]);
  expect(cluster.output()).toContain("a record in the store is damaged");
  const { volumes } = await cluster.volumes.listVolumes({});
  expect(volumes.map(({ id }) => id)).toEqual(["sound"]);
  expect(volumeStateName(await makeVolume(cluster, "new"))).toBe("AVAILABLE");
  for (const id of ["new", "sound"]) await removeVolume(cluster, id);
};

const start = async (store?: string): Promise<Cluster> => {
  const cluster = await startCluster({ nodes: [], ...(store === undefined ? {} : { store }) });
  stops.push(() => cluster.stop());
  for (const id of ["hurt", "sound"]) await makeVolume(cluster, id);
  return cluster;
};

describe("security e: damaged records", () => {
  it("in Redis: a volume without its framing, and an identity whose generation is no number", async () => {
    const redis = await startRedisServer();
    stops.push(() => redis.stop());
    const cluster = await start(redis.url);
    const admin = await redis.admin();
    const [key = ""] = await admin.keys(`*r:v:${namespace}/hurt`);
    const left = "a text without its first lines";
    await admin.set(key, left);
    await expectNamedAndBlocked(cluster);
    expect(await admin.get(key)).toBe(left);

    const [meta = ""] = await admin.keys("*}meta");
    await admin.hset(meta, "gen", "NaN");
    await expect(makeVolume(cluster, "late")).rejects.toMatchObject({ reason: "RECORD_DAMAGED" });
    await cluster.controller().kill("SIGKILL");
    await expect(cluster.startController()).rejects.toThrow(/its gen is \\?"NaN\\?".*restore it from a backup/);
  });

  it("in SQLite: a volume with half of its text, and an identity whose generation is no number", async () => {
    const cluster = await start();
    const change = (sql: string): void => {
      const file = new DatabaseSync(path.join(cluster.dir, "store.db"));
      file.exec(sql);
      file.close();
    };
    await cluster.controller().kill("SIGKILL");
    change(`UPDATE records SET body = substr(body, 1, 40) WHERE kind = 'volume' AND key = '${namespace}/hurt'`);
    await cluster.startController();
    await expectNamedAndBlocked(cluster);

    await cluster.controller().kill("SIGKILL");
    change("UPDATE meta SET value = 'NaN' WHERE name = 'gen'");
    await expect(cluster.startController()).rejects.toThrow(/its gen is \\?"NaN\\?".*restore it from a backup/);
  });
});
