import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { createNetNamespace, type NetNamespace } from "../harness/net-namespace.ts";
import {
  claimVolume,
  expectClean,
  fileWriter,
  makeVolume,
  mountsUnder,
  namespace,
  persistently,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const count = 50;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!root)("claims and releases go on while the world breaks", { timeout: 240_000 }, () => {
  let redis: RedisServer;
  let net: NetNamespace;
  let cluster: Cluster;

  // One cluster for all: each test ends with nothing left of it.
  beforeAll(async () => {
    redis = await startRedisServer();
    net = createNetNamespace();
    cluster = await startCluster({
      nodes: ["node-a"],
      store: redis.url,
      realMounts: true,
      network: () => ({ netns: net.name, controllerHost: net.outsideHost }),
    });
  }, 120_000);
  afterAll(async () => {
    await cluster.stop();
    net.remove();
    await redis.stop();
  });

  /** What a caller is told who asks for something new right now. */
  const answerNow = async (): Promise<string> => {
    const asked = cluster.volumes.createVolume({ namespace, id: "untimely", plugin, capabilities: [fileWriter] });
    return asked.then(
      () => "granted",
      (error: unknown) => (isHoldfastError(error) ? `${error.kind} ${error.reason}` : String(error)),
    );
  };

  /** One volume that is held throughout, and 50 that come and go. */
  const underLoad = async (disturb: () => Promise<void>): Promise<void> => {
    await makeVolume(cluster, "held");
    const held = await claimVolume(cluster, "held");
    expect(stateName(held)).toBe("ACTIVE");
    const mounts = async (): Promise<readonly string[]> =>
      (await mountsUnder(cluster.dir)).filter((line) => line.includes(` ${held.hostPath} `));
    const before = await mounts();
    expect(before.length).toBeGreaterThan(0);
    const ids = Array.from({ length: count }, (_, i) => `v${i}`);
    await Promise.all(ids.map((id) => makeVolume(cluster, id)));
    const life = async (id: string): Promise<void> => {
      await persistently(`${id} to be active`, async () => {
        if (stateName(await claimVolume(cluster, id)) !== "ACTIVE") throw new Error("not active yet");
      });
      await persistently(`${id} to be released`, async () => {
        const over = await releaseWorkload(cluster, `w-${id}`);
        if (over.some((c) => stateName(c) !== "RELEASED")) throw new Error("not released yet");
      });
    };
    const disturbance = pause(150).then(disturb);
    await Promise.all([...ids.map(life), disturbance]);
    expect(await mounts(), "the volume that was held").toEqual(before);
    await releaseWorkload(cluster, "w-held");
    // The untimely request may have been written before its answer was given up.
    await cluster.volumes
      .deleteVolume({ namespace, id: "untimely", waitFor: { seconds: 30n, nanos: 0 } })
      .catch(() => undefined);
    for (const id of [...ids, "held"]) await persistently(`${id} to be removed`, () => removeVolume(cluster, id));
    await expectClean(cluster);
  };

  it("[I2] [I5] [I6] [I8] Redis is killed and started again", async () => {
    await underLoad(async () => {
      await redis.kill();
      expect(await answerNow()).toMatch(/^unavailable STORE_/);
      await redis.restart();
    });
  });

  it("[I2] [I5] [I6] [I7] Redis stops answering for 10 s", async () => {
    await underLoad(async () => {
      redis.signal("SIGSTOP");
      const [answer] = await Promise.all([answerNow(), pause(10_000)]);
      redis.signal("SIGCONT");
      expect(answer).toMatch(/^unavailable STORE_/);
    });
  });

  it("[I2] [I5] [I6] [I7] agent and controller cannot reach each other", async () => {
    await underLoad(async () => {
      net.cut();
      const failing = until("a claim that says why it waits", async () => {
        const { claims } = await cluster.claims.listClaims({ filter: { namespace } });
        return claims.some((c) => c.lastError?.reason === "UNAVAILABLE" || c.waitingFor !== "") || undefined;
      });
      await pause(8_000);
      await failing;
      net.mend();
    });
  });
});
