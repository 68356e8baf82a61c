/** From the embedded store to Redis with a volume in use: exported, imported, vetted by the nodes; the mount is never touched. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  fileWriter,
  makeVolume,
  mountsUnder,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";
import { cliRun } from "./cli-run.ts";
import { createGolden } from "./golden.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

let cluster: Cluster;
let redis: RedisServer;
beforeAll(async () => {
  if (!root) return;
  redis = await startRedisServer();
  cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
});
afterAll(async () => {
  await cluster?.stop();
  await redis?.stop();
});

test.skipIf(!root)("[I8] export, import and migrate", async () => {
  await makeVolume(cluster, "kept", fileWriter);
  const claim = await claimVolume(cluster, "kept");
  const mounts = () => mountsUnder(cluster.dir);
  const before = await mounts();
  const file = path.join(cluster.dir, "backup.export");
  const settings = (store: string, stateDir: string) => ({
    HOLDFAST_STORE: store,
    HOLDFAST_STATE_DIR: stateDir,
  });
  const sqlite = settings(`sqlite://${path.join(cluster.dir, "store.db")}`, path.join(cluster.dir, "controller"));
  const onRedis = settings(redis.url, path.join(cluster.dir, "controller"));
  const run = (args: string, env: Readonly<Record<string, string>>) => cliRun(args.split(" "), { env });

  const busy = await run(`export ${file}`, sqlite);
  expect(busy.err).toContain("another process has it open");
  await cluster.controller().kill("SIGTERM");

  const golden = (env: Readonly<Record<string, string>>) => createGolden((args) => run(args, env));
  await golden(sqlite)("export", `export ${file}`);
  expect((await readFile(file, "utf8")).split("\n").length).toBeGreaterThan(3);
  const listening = { HOLDFAST_AGENT_LISTEN: cluster.agentAddress, HOLDFAST_PLUGIN_DIR: path.join(cluster.dir, "cp") };
  await golden({ ...sqlite, ...listening })("rebuild", "rebuild node-a");
  await golden(onRedis)("migrate", "migrate");
  expect((await run(`import ${file}`, onRedis)).code).toBe(2); // another installation by now
  await (await redis.admin()).call("FLUSHALL");
  const first = await run(`import ${file}`, onRedis);
  expect(first.code, first.err).toBe(0);
  await golden(onRedis)("import", `import ${file}`);

  await cluster.startController({ HOLDFAST_STORE: redis.url });
  const status = await until("the claim to be known and the store to grant", async () => {
    const { claims } = await cluster.claims.listClaims({ filter: { namespace: claim.namespace, volume: "kept" } });
    return claims[0];
  });
  expect([status.uid, stateName(status)]).toEqual([claim.uid, "ACTIVE"]);
  expect(await mounts()).toEqual(before);
  const [over] = await releaseWorkload(cluster, "w-kept");
  expect(over === undefined ? "none" : stateName(over)).toBe("RELEASED");
  await until("a new volume to be made there", async () => {
    await makeVolume(cluster, "new", fileWriter).catch(() => undefined);
    return (await cluster.volumes.listVolumes({ filter: { idPrefix: "new" } })).volumes[0];
  });
  await removeVolume(cluster, "new");
  await removeVolume(cluster, "kept");
});
