/**
 * Every part is stopped in order and started again, one at a time, as in an upgrade, while volumes come and go; and one controller is replaced by
 * one with an empty state directory. Nobody is asked for anything, no mount of a running workload is touched, and no bar is left.
 */
import { rm } from "node:fs/promises";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  mountsUnder,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";
import { startRedisServer } from "../support/redis-server.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: real mounts need root");

const nodes = ["node-a", "node-b"];

it.runIf(full && root)("[I1] [I2] [I6] a rolling restart of all parts needs nobody", { timeout: 300_000 }, async () => {
  const redis = await startRedisServer();
  onTestFinished(() => redis.stop());
  const cluster = await startCluster({ nodes, store: redis.url, second: {}, realMounts: true });
  onTestFinished(() => cluster.stop());
  const { second } = cluster;
  for (const node of nodes) {
    await makeVolume(cluster, `runs-${node}`);
    expect(stateName(await claimVolume(cluster, `runs-${node}`, { node }))).toBe("ACTIVE");
  }
  const mounts = await mountsUnder(cluster.dir);

  const ending = new AbortController();
  let rounds = 0;
  await makeVolume(cluster, "moving");
  const moving = (async () => {
    for (; !ending.signal.aborted; rounds += 1) {
      const workload = `moving-${rounds}`;
      const node = nodes[rounds % nodes.length] ?? "";
      await persistently(workload, async () => {
        const state = stateName(await claimVolume(cluster, "moving", { node, workload }));
        if (state !== "ACTIVE") throw new Error(state);
      });
      await persistently(`the end of ${workload}`, async () => {
        const left = (await releaseWorkload(cluster, workload)).map(stateName).filter((state) => state !== "RELEASED");
        if (left.length > 0) throw new Error(left.join());
      });
    }
  })();
  const steps: readonly (readonly [string, () => Promise<unknown>])[] = [
    [
      "plugin of the first controller",
      async () => {
        await cluster.controllerPlugin().stop();
        await cluster.startControllerPlugin();
      },
    ],
    [
      "plugin of the second controller",
      async () => {
        await second.plugin().stop();
        await second.startPlugin();
      },
    ],
    ...nodes.flatMap((name) => [
      [
        `plugin of ${name}`,
        async () => {
          await cluster.node(name).plugin().stop();
          await cluster.node(name).startPlugin();
        },
      ] as const,
      [
        `agent of ${name}`,
        async () => {
          await cluster.node(name).agent().kill("SIGTERM");
          await cluster.node(name).startAgent();
        },
      ] as const,
    ]),
    [
      "first controller",
      async () => {
        await cluster.controller().kill("SIGTERM");
        await cluster.startController();
      },
    ],
    [
      "second controller",
      async () => {
        await second.process().kill("SIGTERM");
        await second.start();
      },
    ],
    [
      "first controller, with an empty state directory",
      async () => {
        await cluster.controller().kill("SIGTERM");
        await rm(path.join(cluster.dir, "controller"), { recursive: true });
        await cluster.startController();
      },
    ],
  ];
  for (const [what, restart] of steps) {
    await restart();
    const before = rounds;
    await until(`the volume to move on after ${what}`, () => rounds > before + 1, 60_000);
    expect(await cluster.repair.vet({}), what).toMatchObject({ open: true });
  }
  ending.abort();
  await moving;
  expect((await cluster.repair.listStuck({ pageSize: 10 })).stuck).toEqual([]);
  expect((await cluster.repair.listAudit({})).records).toEqual([]);
  const { volume } = await cluster.volumes.getVolume({ namespace, id: "moving" });
  expect(volume?.bars ?? []).toEqual([]);
  expect((await mountsUnder(cluster.dir)).toSorted()).toEqual([...mounts].toSorted());
  for (const node of nodes)
    expect((await releaseWorkload(cluster, `w-runs-${node}`)).map(stateName)).toEqual(["RELEASED"]);
  for (const id of [...nodes.map((node) => `runs-${node}`), "moving"]) await removeVolume(cluster, id);
  await expectClean(cluster);
});
