import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  releaseWorkload,
  removeVolume,
  stateName,
  volumeStateName,
} from "../harness/scenario.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("drivers that answer as no specification foresees", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
  });
  afterAll(() => cluster?.stop());

  it("D10 UNIMPLEMENTED for one volume fails that one; others wait until the capabilities were read anew", async () => {
    const { client } = cluster.backend;
    const not = { code: "UNIMPLEMENTED", message: "not for this one" } as const;
    await client.setFaults([{ method: "CreateVolume", ...not }]);
    expect(volumeStateName(await makeVolume(cluster, "odd"))).toBe("FAILED");
    const others = ["one", "two"];
    const made = await Promise.all(others.map((id) => makeVolume(cluster, id)));
    expect(made.map(volumeStateName)).toEqual(["AVAILABLE", "AVAILABLE"]);
    await client.setFaults([{ method: "NodeStageVolume", ...not }]);
    expect(stateName(await claimVolume(cluster, "one"))).toBe("FAILED");
    expect(stateName(await claimVolume(cluster, "two"))).toBe("ACTIVE");
    await client.setFaults([]);
    for (const id of others) await releaseWorkload(cluster, `w-${id}`);
    for (const id of [...others, "odd"]) await removeVolume(cluster, id);
    await expectClean(cluster);
  });
});
