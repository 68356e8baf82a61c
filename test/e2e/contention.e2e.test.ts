import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { claimVolume, expectClean, makeVolume, namespace, releaseWorkload, removeVolume } from "../harness/scenario.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("many callers, one volume", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a", "node-b"], realMounts: true });
  });
  afterAll(() => cluster.stop());

  it("[I1] 100 concurrent CreateClaims for a single-writer volume: one holder, 99 refusals that name it", async () => {
    await makeVolume(cluster, "wanted");
    const answers = await Promise.allSettled(
      Array.from({ length: 100 }, (_, i) =>
        cluster.claims.createClaims({
          namespace,
          workload: `w${i}`,
          node: i % 2 === 0 ? "node-a" : "node-b",
          claims: [{ volume: "wanted" }],
        }),
      ),
    );
    const won = answers.flatMap((a) => (a.status === "fulfilled" ? a.value.claims : []));
    expect(won.length).toBe(1);
    const holder = won[0]?.workload ?? "";
    const refusals = answers.flatMap((a) => (a.status === "rejected" ? [a.reason as unknown] : []));
    expect(refusals.length).toBe(99);
    for (const error of refusals) {
      if (!isHoldfastError(error)) throw error;
      expect(error.reason).toBe("CLAIM_CONFLICT");
      expect(error.kind).toBe("precondition");
      expect(error.metadata["holder_workload"]).toBe(holder);
    }
    await releaseWorkload(cluster, holder);
    await removeVolume(cluster, "wanted");
    await expectClean(cluster);
  });

  it("[I1] a set of three volumes with one taken grants none", async () => {
    for (const id of ["s1", "s2", "s3"]) await makeVolume(cluster, id);
    await claimVolume(cluster, "s2", { workload: "first" });
    const asked = cluster.claims.createClaims({
      namespace,
      workload: "second",
      node: "node-b",
      claims: [{ volume: "s1" }, { volume: "s2" }, { volume: "s3" }],
    });
    await expect(asked).rejects.toMatchObject({ reason: "CLAIM_CONFLICT" });
    const { claims } = await cluster.claims.listClaims({ filter: { namespace, workload: "second" } });
    expect(claims).toEqual([]);
    const { attachments } = await cluster.backend.client.state();
    expect([...attachments.values()].flat().map((a) => a.node)).toEqual(["node-a"]);
    await releaseWorkload(cluster, "first");
    for (const id of ["s1", "s2", "s3"]) await removeVolume(cluster, id);
    await expectClean(cluster);
  });
});
