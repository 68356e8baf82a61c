/**
 * The store is restored from a copy that is older than a node and its grant. Nothing is granted while that node is away, as the controller
 * remembers it. A person is mistaken and accepts: the same volume is granted again, twice, so that its epoch is above the epoch that the
 * node holds. When the node returns its running mount is neither taken away nor joined by another writer.
 */
import { cp, rm } from "node:fs/promises";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
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

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const storeFiles = ["store.db", "store.db-wal", "store.db-shm"];

test.skipIf(!root)(
  "lateness 8: [I1] [I2] a mount that a rolled-back store has forgotten stays, and bars its volume",
  {
    timeout: 60_000,
  },
  async () => {
    const controllerEnv = { HOLDFAST_LINK_GRACE: "1s" };
    // Nothing is attached: the backend would let any node write, so that only the records and the agents keep a second writer away.
    const backend = { capabilities: { without: ["controller.PUBLISH_UNPUBLISH_VOLUME"] } } as const;
    const cluster = await startCluster({ nodes: ["node-a"], realMounts: true, controllerEnv, backend });
    onTestFinished(() => cluster.stop());
    await makeVolume(cluster, "v");
    await cluster.controller().kill("SIGTERM");
    const copy = path.join(cluster.dir, "copy-of-the-store");
    for (const file of storeFiles)
      await cp(path.join(cluster.dir, file), path.join(copy, file)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
      });
    await cluster.startController();

    const node = await cluster.addNode("node-b");
    const lost = await persistently("the claim", () =>
      claimVolume(cluster, "v", { node: "node-b", workload: "running" }),
    );
    expect(stateName(lost)).toBe("ACTIVE");
    const mounts = await mountsUnder(node.rootDir);
    await node.agent().kill("SIGKILL");
    await cluster.controller().kill("SIGKILL");
    for (const file of storeFiles) await rm(path.join(cluster.dir, file), { force: true });
    await cp(copy, cluster.dir, { recursive: true });
    await cluster.startController();

    const { findings } = await until("what keeps the store shut", async () => {
      const told = await cluster.repair.vet({});
      return told.findings.some((one) => one.node === "node-b") ? told : undefined;
    });
    expect(findings.map(({ message }) => message).join()).toContain(
      "node node-b was registered and in use, and the store does not",
    );
    await expect(claimVolume(cluster, "v", { workload: "early" })).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    await cluster.repair.vet({ accept: true, reason: "it never ran anything, as somebody thinks" });

    for (const workload of ["first", "second"]) {
      const again = await persistently("a further grant", () => claimVolume(cluster, "v", { workload }));
      expect(stateName(again)).toBe("ACTIVE");
      expect((await releaseWorkload(cluster, workload)).map(stateName)).toEqual(["RELEASED"]);
    }

    await node.startAgent();
    const { stuck } = await until("the hold to be told", async () => {
      const answer = await cluster.repair.listStuck({ pageSize: 10 });
      const gone = (await mountsUnder(node.rootDir)).length === 0;
      return answer.stuck.some(({ blocked }) => blocked?.reason === "FOREIGN_HOLD") || gone ? answer : undefined;
    });
    expect.soft(await mountsUnder(node.rootDir)).toEqual(mounts);
    expect(stuck).toMatchObject([{ node: "node-b", claimUid: lost.uid, state: "FOREIGN", volume: "v" }]);
    await expect(claimVolume(cluster, "v", { workload: "third" })).rejects.toMatchObject({ reason: "FOREIGN_HOLD" });
    expect(await mountsUnder(node.rootDir)).toEqual(mounts);

    const abandon = {
      namespace,
      volume: "v",
      workload: "running",
      claimUid: lost.uid,
      evidence: "stopped",
      reason: "test",
    };
    const { outcome } = await cluster.repair.abandonClaim({ ...abandon, dryRun: true });
    await cluster.repair.abandonClaim({ ...abandon, confirm: outcome?.confirmWith ?? "" });
    await until("the mount to be gone", async () => (await mountsUnder(node.rootDir)).length === 0);
    await persistently("a grant", () => claimVolume(cluster, "v", { workload: "third" }));
    expect((await releaseWorkload(cluster, "third")).map(stateName)).toEqual(["RELEASED"]);
    await removeVolume(cluster, "v");
    await expectClean(cluster);
  },
);
