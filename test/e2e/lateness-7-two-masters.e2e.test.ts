/**
 * Redis fails over while one controller still reaches the old master, which goes on answering it. From the moment in which the new master was vetted
 * the nodes follow no order of the old history: nothing is mounted for it, and nothing is unmounted.
 */
import { expect, onTestFinished, test } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
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
import { startRedisServer } from "../support/redis-server.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

/** The first controller stays at `old`, and the second one goes on at `next`, which has all that was written before. */
const startTwoMasters = async () => {
  // The second replica stays with the old master, which has enough of them to take writes.
  const [old, next, other] = [await startRedisServer(), await startRedisServer(), await startRedisServer()];
  onTestFinished(async () => {
    for (const server of [old, next, other]) await server.stop();
  });
  const [oldAdmin, nextAdmin] = [await old.admin(), await next.admin()];
  for (const replica of [nextAdmin, await other.admin()]) await replica.call("REPLICAOF", "127.0.0.1", old.port);
  await oldAdmin.config("SET", "min-replicas-to-write", "1");
  await until("both replicas", async () => (await oldAdmin.info("replication")).includes("min_slaves_good_slaves:2"));
  const part = async ({ second }: Cluster): Promise<void> => {
    expect(await oldAdmin.call("WAIT", 2, 10_000)).toBe(2);
    await nextAdmin.call("REPLICAOF", "NO", "ONE");
    await second.process().kill("SIGKILL");
    await second.start({ HOLDFAST_STORE: next.url });
  };
  return { old, next, part };
};

const nodes = ["node-a", "node-b"];

test.skipIf(!root)(
  "lateness 7: [I1] [I2] [I8] a controller at a master that was replaced mounts and unmounts nothing",
  { timeout: 90_000 },
  async () => {
    const { old, next, part } = await startTwoMasters();
    // Nothing is attached: the backend would let any node write, so that only the records and the agents keep a second writer away.
    const backend = { capabilities: { without: ["controller.PUBLISH_UNPUBLISH_VOLUME"] } } as const;
    const cluster = await startCluster({ nodes, realMounts: true, store: old.url, second: {}, backend });
    onTestFinished(() => cluster.stop());
    for (const id of ["free", "held"]) await makeVolume(cluster, id);
    expect(stateName(await claimVolume(cluster, "held", { node: "node-a" }))).toBe("ACTIVE");
    const mounts = await mountsUnder(cluster.node("node-a").rootDir);
    expect(mounts.length).toBeGreaterThan(0);
    await part(cluster);

    const { second } = cluster;
    const claims = [{ volume: "free" }];
    const asked = { namespace, workload: "true", node: "node-b", claims, waitFor: { seconds: 30n, nanos: 0 } };
    const { claims: granted } = await persistently("the grant", () => second.clients.claims.createClaims(asked));
    expect(granted.map(stateName)).toEqual(["ACTIVE"]);

    // The old history grants the same volume under its own next epoch, and takes away what is held.
    const waitFor = { seconds: 1n, nanos: 0 };
    const request = { namespace, workload: "late", node: "node-a", claims };
    await cluster.claims.createClaims({ ...request, waitFor }).catch(() => undefined);
    await cluster.claims.releaseClaims({ namespace, workload: "w-held", waitFor }).catch(() => undefined);
    const stuck = async (volume: string): Promise<string> => {
      const explained = await cluster.claims.listClaims({ filter: { namespace, volume } });
      return explained.claims.map(({ state, lastError }) => JSON.stringify({ state, lastError })).join();
    };
    for (const volume of ["free", "held"])
      await until(`the refusal of ${volume}`, async () => (await stuck(volume)).includes("GENERATION"));
    expect(await mountsUnder(cluster.node("node-a").rootDir)).toEqual(mounts);
    expect((await mountsUnder(cluster.node("node-b").rootDir)).length).toBeGreaterThan(0);

    // It goes on in the true history, whose records are those that count.
    await cluster.controller().kill("SIGKILL");
    await cluster.startController({ HOLDFAST_STORE: next.url });
    const found = await persistently("the records", () => cluster.claims.listClaims({ filter: { namespace } }));
    expect(found.claims.map((claim) => `${claim.workload} ${stateName(claim)}`).toSorted()).toEqual([
      "true ACTIVE",
      "w-held ACTIVE",
    ]);
    for (const workload of ["true", "w-held"])
      expect((await releaseWorkload(cluster, workload)).map(stateName)).toEqual(["RELEASED"]);
    for (const id of ["free", "held"]) await removeVolume(cluster, id);
    await expectClean(cluster);
  },
);

test.skipIf(!root)(
  "lateness 7: [CW1] [I2] nothing is attached beside a controller at the old master, whose calls no agent sees, until it is gone",
  {
    timeout: 90_000,
  },
  async () => {
    const { old, next, part } = await startTwoMasters();
    const backend = { judgesArrivals: true };
    const cluster = await startCluster({ nodes, realMounts: true, store: old.url, second: {}, backend });
    onTestFinished(() => cluster.stop());
    await makeVolume(cluster, "data");
    await part(cluster);
    const { second } = cluster;
    const claims = [{ volume: "data" }];
    const asked = { namespace, workload: "true", node: "node-b", claims, waitFor: { seconds: 1n, nanos: 0 } };
    const reasonAt = async (): Promise<string> =>
      String(await second.clients.claims.createClaims(asked).catch((error: unknown) => error));
    await until("the reason", async () => /controller \S+ has not promised generation 2/.test(await reasonAt()));
    // The old history goes on by itself meanwhile, up to what the nodes have to do.
    const late = { ...asked, workload: "late" };
    await cluster.claims.createClaims(late).catch(() => undefined);
    await cluster.claims.releaseClaims({ namespace, workload: "late", waitFor: asked.waitFor }).catch(() => undefined);
    expect(await reasonAt()).toContain("has not promised generation 2");
    const calls = await cluster.backend.client.record();
    expect(
      calls.filter(({ method, instance }) => method === "ControllerPublishVolume" && instance === "second"),
    ).toEqual([]);

    await cluster.controller().kill("SIGKILL");
    await cluster.startController({ HOLDFAST_STORE: next.url });
    const granted = { ...asked, waitFor: { seconds: 30n, nanos: 0 } };
    const { claims: after } = await persistently("the grant", () => second.clients.claims.createClaims(granted));
    expect(after.map(stateName)).toEqual(["ACTIVE"]);
  },
);
