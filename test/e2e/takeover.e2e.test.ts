/** A controller that goes away in the middle of a call: another one goes on, and what the late call could harm waits for its end. */
import { IntentOperation } from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
import { seenFrom, settleDriver, type Which } from "../harness/plugin-driver.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const volume = "data";
const workload = `w-${volume}`;
const nodes = ["node-a", "node-b"];
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!root)("a controller that goes away in the middle of a detach", () => {
  let redis: RedisServer;
  let cluster: Cluster;

  const start = async (more: { readonly controllerHalvesOn?: readonly string[] }): Promise<void> => {
    redis = await startRedisServer();
    cluster = await startCluster({
      nodes,
      store: redis.url,
      second: {},
      realMounts: true,
      backend: { judgesArrivals: true },
      ...more,
    });
  };
  afterEach(async () => {
    await cluster?.stop();
    await redis?.stop();
  });

  const barsOf = async (side: Cluster) => (await side.volumes.getVolume({ namespace, id: volume })).volume?.bars ?? [];
  const detaches = async () =>
    (await cluster.backend.client.record()).filter(({ method }) => method === "ControllerUnpublishVolume");
  const open = async () =>
    (await cluster.backend.client.inFlight()).filter(({ method }) => method === "ControllerUnpublishVolume");

  /** The claim of node-a is let go, and its detach stays open for a while. Tells who has asked for it. */
  const detachUnderWay = async (hangMs: number): Promise<{ readonly issuer: Which; readonly other: Which }> => {
    await persistently("the volume", () => makeVolume(cluster, volume));
    expect(stateName(await claimVolume(cluster, volume))).toBe("ACTIVE");
    await cluster.backend.client.addFault({ method: "ControllerUnpublishVolume", hangMs, when: "after", times: 1 });
    await cluster.claims.releaseClaims({ namespace, workload });
    await until("the detach to be open", async () => (await open()).length === 1);
    const { volume: found } = await cluster.volumes.getVolume({ namespace, id: volume });
    const issuer = found?.intent?.issuer.startsWith("second/") === true ? "second" : "first";
    return { issuer, other: issuer === "first" ? "second" : "first" };
  };
  const processOf = (which: Which) => (which === "first" ? cluster.controller() : cluster[which].process());
  const startOf = (which: Which) => (which === "first" ? cluster.startController() : cluster[which].start());

  it("[I2] paused, with its call at an agent: another controller goes on at the same gate, with no second call and no bar", async () => {
    await start({ controllerHalvesOn: nodes });
    for (const node of nodes) await cluster.node(node).startControllerHalf();
    const { issuer, other } = await detachUnderWay(25_000);
    const frozen = freeze(processOf(issuer));
    onTestFinished(frozen.thaw);
    const side = seenFrom(cluster, other);
    const [released] = await releaseWorkload(side, workload);
    expect(released === undefined ? "" : stateName(released)).toBe("RELEASED");
    expect(await detaches()).toHaveLength(1);
    expect(await barsOf(side)).toEqual([]);
    expect(stateName(await claimVolume(side, volume, { workload: "next" }))).toBe("ACTIVE");
    frozen.thaw();
    await persistently("the one that was paused", async () =>
      expect(await barsOf(seenFrom(cluster, issuer))).toEqual([]),
    );
    await releaseWorkload(side, "next");
    await removeVolume(side, volume);
    await expectClean(cluster);
  });

  it("[I2] [I5] killed, with its call in the socket beside it: other nodes go on, the pair waits for its next life", async () => {
    await start({});
    const { driver: issuer, other } = await settleDriver(cluster);
    await persistently("the volume", () => makeVolume(cluster, volume));
    expect(stateName(await claimVolume(cluster, volume))).toBe("ACTIVE");
    const frozen = freeze(issuer === "first" ? cluster.controllerPlugin() : cluster.second.plugin());
    onTestFinished(frozen.thaw);
    const side = seenFrom(cluster, other);
    await side.claims.releaseClaims({ namespace, workload });
    await until("the detach to be given away", async () => {
      const { volume: found } = await side.volumes.getVolume({ namespace, id: volume });
      const { operation, issuer: by = "" } = found?.intent ?? {};
      return (
        operation === IntentOperation.INTENT_OPERATION_DETACH && by.startsWith("second/") === (issuer === "second")
      );
    });
    await pause(500);
    await processOf(issuer).kill("SIGKILL");
    const [released] = await releaseWorkload(side, workload);
    expect(released === undefined ? "" : stateName(released)).toBe("RELEASED");
    expect(await barsOf(side)).toMatchObject([{ node: "node-a", operation: "detach", gate: "" }]);
    await expect(claimVolume(side, volume, { workload: "early" })).rejects.toThrow(/clear-bar/);
    expect(stateName(await claimVolume(side, volume, { node: "node-b", workload: "elsewhere" }))).toBe("ACTIVE");
    await releaseWorkload(side, "elsewhere");

    await startOf(issuer);
    expect(await barsOf(side)).toHaveLength(1);
    frozen.thaw();
    await until("the bar to go", async () => (await barsOf(side)).length === 0, 60_000);
    expect(stateName(await claimVolume(side, volume, { workload: "next" }))).toBe("ACTIVE");
    const instances = (await detaches()).map(({ instance }) => instance);
    expect(instances[0]).toBe(other);
    expect(instances).toContain(issuer);
    await releaseWorkload(side, "next");
    await removeVolume(side, volume);
    await expectClean(cluster);
  });
});
