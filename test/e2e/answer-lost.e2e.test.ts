import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mutatingCalls } from "../harness/calls.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { claimVolume, expectClean, makeVolume, releaseWorkload, removeVolume, stateName } from "../harness/scenario.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const methods = [
  "CreateVolume",
  "ControllerPublishVolume",
  "NodeStageVolume",
  "NodePublishVolume",
  "NodeUnpublishVolume",
  "NodeUnstageVolume",
  "ControllerUnpublishVolume",
  "DeleteVolume",
] as const;

describe.skipIf(!root)("the work is done and the answer is lost", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
  });
  afterAll(() => cluster.stop());

  it.each(methods)("[I4] [I5] [I6] %s: the same end state and no forbidden order", async (method) => {
    const id = method.toLowerCase();
    await cluster.backend.client.clear();
    await cluster.backend.client.setFaults([{ method, dropReply: true, times: 1 }]);
    await makeVolume(cluster, id);
    const claim = await claimVolume(cluster, id);
    expect(stateName(claim)).toBe("ACTIVE");
    await releaseWorkload(cluster, `w-${id}`);
    await removeVolume(cluster, id);
    await expectClean(cluster);
    const calls = await mutatingCalls(cluster);
    expect(calls.filter((m) => m === method).length, calls.join(", ")).toBe(2);
    for (const other of methods.filter((m) => m !== method))
      expect(calls.filter((m) => m === other).length, other).toBe(1);
  });
});
