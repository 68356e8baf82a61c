/**
 * A controller is killed with a detach in the socket beside it, and the store is restored from a copy that is older than the release. By
 * its records the claim runs; the plugin gets the detach when it runs again. Nothing is offered beside it until somebody says that it ended.
 */
import { cp, rm } from "node:fs/promises";
import path from "node:path";
import { IntentOperation } from "@holdfast/shared/gen/holdfast/v1/volume";
import { expect, onTestFinished, test } from "vitest";
import { startCluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
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

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const storeFiles = ["store.db", "store.db-wal", "store.db-shm"];

test.skipIf(!root)(
  "[I2] [LC3] a detach that the store has lost comes under no mount",
  { timeout: 60_000 },
  async () => {
    const cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
    onTestFinished(() => cluster.stop());
    const node = cluster.node("node-a");
    for (const id of ["v", "w"]) await makeVolume(cluster, id);
    expect(stateName(await persistently("the claim", () => claimVolume(cluster, "v")))).toBe("ACTIVE");
    await cluster.controller().kill("SIGTERM");
    const copy = path.join(cluster.dir, "copy-of-the-store");
    for (const file of storeFiles)
      await cp(path.join(cluster.dir, file), path.join(copy, file)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
      });
    await cluster.startController();

    const frozen = freeze(cluster.controllerPlugin());
    onTestFinished(frozen.thaw);
    await persistently("the release", () => cluster.claims.releaseClaims({ namespace, workload: "w-v" }));
    await until("the detach to be given away", async () => {
      const { volume } = await cluster.volumes.getVolume({ namespace, id: "v" });
      return volume?.intent?.operation === IntentOperation.INTENT_OPERATION_DETACH;
    });
    // It is on its way to the plugin: nothing tells when it lies in the socket.
    await pause(500);
    await cluster.controller().kill("SIGKILL");
    for (const file of storeFiles) await rm(path.join(cluster.dir, file), { force: true });
    await cp(copy, cluster.dir, { recursive: true });
    await cluster.startController();

    const { findings } = await until("the call to be told", async () => {
      const told = await cluster.repair.vet({});
      return told.open && told.findings.length > 0 ? told : undefined;
    });
    const left = /sim.holdfast.dev beside this controller .* ControllerUnpublishVolume .* at node-a.* vet --accept/;
    expect(findings.map(({ message }) => message)).toContainEqual(expect.stringMatching(left));
    frozen.thaw();
    await until("the late call to arrive", async () =>
      (await cluster.backend.client.record()).some(({ method }) => method === "ControllerUnpublishVolume"),
    );
    await expect(claimVolume(cluster, "w")).rejects.toThrow(/has not promised/);
    expect(await mountsUnder(node.rootDir)).toEqual([]);
    await cluster.repair.vet({ accept: true, reason: "the plugin has done it" });
    expect(stateName(await persistently("a claim", () => claimVolume(cluster, "w")))).toBe("ACTIVE");
    for (const id of ["v", "w"]) {
      await persistently("the release", () => releaseWorkload(cluster, `w-${id}`));
      await removeVolume(cluster, id);
    }
    await expectClean(cluster);
  },
);
