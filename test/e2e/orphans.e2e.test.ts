/** What is nobody's, over real processes: planted behind the controller's back, found, approved, removed; nothing else touched. */
import { type Orphan, OrphanKind, RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("orphans over real processes", () => {
  let cluster: Cluster;
  let channel: GrpcChannel;
  const repair = () =>
    createGrpcClient(RepairServiceDefinition, channel, {
      log: createMemoryLogger(),
      identity: { role: "operator", name: "o1" },
    });

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a", "node-b"], realMounts: true });
    channel = createGrpcChannel(cluster.address);
  });
  afterAll(async () => {
    channel.close();
    await cluster.stop();
  });

  const scan = async (): Promise<readonly Orphan[]> => {
    const found: Orphan[] = [];
    for await (const { orphan, gap } of repair().scanOrphans({})) {
      expect(gap).toBeUndefined();
      if (orphan !== undefined) found.push(orphan);
    }
    return found;
  };

  const remove = async (orphan: Orphan | undefined): Promise<void> => {
    const asked = { orphanId: orphan?.id ?? "", evidence: "planted by this test", reason: "test" };
    const { outcome } = await repair().removeOrphan({ ...asked, dryRun: true });
    await repair().removeOrphan({ ...asked, confirm: outcome?.confirmWith ?? "" });
  };

  it("[W54] leaked storage is listed, removed by approval, and its removal is in the audit", async () => {
    const { client } = cluster.backend;
    await makeVolume(cluster, "kept");
    const claim = await claimVolume(cluster, "kept");
    expect(stateName(claim)).toBe("ACTIVE");
    await client.addVolume({ id: "leaked" });
    await client.addSnapshot({ id: "old", source: "leaked" });
    const external = await cluster.volumes.listExternalVolumes({ plugin });
    expect(external.volumes.map((v) => [v.knownId, v.externalId === "leaked"]).sort()).toEqual([
      ["", true],
      ["kept", false],
    ]);
    const found = await scan();
    expect(found.map((o) => [o.kind, o.externalId]).sort()).toEqual([
      [OrphanKind.ORPHAN_KIND_STORAGE, "leaked"],
      [OrphanKind.ORPHAN_KIND_SNAPSHOT, "old"],
    ]);
    await remove(found.find((o) => o.kind === OrphanKind.ORPHAN_KIND_SNAPSHOT));
    await until("the leaked snapshot is gone", async () => !(await client.state()).snapshots.has("old"));
    await remove(found.find((o) => o.kind === OrphanKind.ORPHAN_KIND_STORAGE));
    await until("the leaked storage is gone", async () => !(await client.state()).volumes.has("leaked"));
    await until("nothing is found any more", async () => (await scan()).length === 0);
    const { records } = await repair().listAudit({ verb: "RemoveOrphan" });
    expect(records).toMatchObject([
      { externalId: "leaked", evidence: "planted by this test", reason: "test" },
      { externalId: "old", evidence: "planted by this test", reason: "test" },
    ]);
    expect(records[0]?.who).toContain("o1");
    // Nothing but what was approved was touched.
    const deletes = (await client.record()).filter(({ method }) => method.startsWith("Delete"));
    expect(deletes.map(({ method }) => method)).toEqual(["DeleteSnapshot", "DeleteVolume"]);
    await releaseWorkload(cluster, "w-kept");
    await removeVolume(cluster, "kept");
    await expectClean(cluster);
  });
});
