import { reconcileFailpoints } from "@holdfast/controller/reconcile/failpoints";
import { afterAll, beforeAll, describe, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  growVolume,
  isGrown,
  isModified,
  makeVolume,
  modifyVolume,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
  volumeStateName,
} from "../harness/scenario.ts";
import { full, sample } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

/** In a sample each call is struck on one side, its commit or its answer in turn; the random worlds strike both in one process. */
const points = reconcileFailpoints.filter((_, at) => full || [0, 3].includes(at % 4));
const rounds = sample(3, 1);

describe.skipIf(!root)("the controller is killed", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
  });
  afterAll(() => cluster.stop());

  const demand = (ok: boolean, what: string): void => {
    if (!ok) throw new Error(what);
  };

  /** A scheduler that repeats its calls until they are answered, as it should. */
  const live = async (id: string): Promise<void> => {
    await persistently("the volume", async () =>
      demand(volumeStateName(await makeVolume(cluster, id)) === "AVAILABLE", "the volume is not available"),
    );
    await persistently("the claim", async () =>
      demand(stateName(await claimVolume(cluster, id)) === "ACTIVE", "the claim is not active"),
    );
    await persistently("the larger size", async () => demand(isGrown(await growVolume(cluster, id)), "not grown yet"));
    await persistently("the other parameters", async () =>
      demand(isModified(await modifyVolume(cluster, id)), "not modified yet"),
    );
    await persistently("the release", async () =>
      demand(
        (await releaseWorkload(cluster, `w-${id}`)).every((c) => stateName(c) === "RELEASED"),
        "not released yet",
      ),
    );
    await persistently("the removal", () => removeVolume(cluster, id));
  };

  it.each(points)(
    "[I2] [I4] [I5] [I6] at %s: nothing leaks, nothing sticks",
    { timeout: 120_000 * rounds },
    async (point) => {
      for (let round = 0; round < rounds; round += 1) {
        await cluster.controller().kill("SIGTERM");
        await cluster.startController({ HOLDFAST_FAILPOINTS: `${point}=kill` });
        await cluster.backend.client.clear();
        const revived = (async () => {
          await cluster.controller().exited();
          await cluster.startController();
        })();
        await Promise.all([live(`c${points.indexOf(point)}-${round}`), revived]);
        await expectClean(cluster);
      }
    },
  );
});
