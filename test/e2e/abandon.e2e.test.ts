/** A node that never comes back, over real processes: its claim is given up on a person's word, and on nothing less. */
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { claimVolume, makeVolume, namespace, stateName } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("a claim whose node is gone for good", () => {
  let cluster: Cluster;
  let channel: GrpcChannel;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a", "node-b"], realMounts: true });
    channel = createGrpcChannel(cluster.address);
  });
  afterAll(async () => {
    channel.close();
    await cluster.stop();
  });

  it("[W11] stays where it is until somebody gives it up with evidence, and then frees its volume", async () => {
    const repair = createGrpcClient(RepairServiceDefinition, channel, {
      log: createMemoryLogger(),
      identity: { role: "operator", name: "o1" },
    });
    await makeVolume(cluster, "data");
    const held = await claimVolume(cluster, "data");
    expect(stateName(held)).toBe("ACTIVE");
    const asked = {
      namespace,
      volume: "data",
      workload: "w-data",
      claimUid: held.uid,
      evidence: "the machine was destroyed",
      reason: "test",
    };
    // While its agent answers and has the mount, no word of anybody is taken.
    await expect(repair.abandonClaim({ ...asked, dryRun: true })).rejects.toMatchObject({
      reason: "REPAIR_NOT_APPLICABLE",
    });

    await cluster.node("node-a").agent().kill("SIGKILL");
    await cluster.claims.releaseClaims({ namespace, workload: "w-data" });
    const state = async () => {
      const key = { namespace, volume: "data", workload: "w-data", alias: "data" };
      const { claim } = await cluster.claims.getClaim(key);
      return claim === undefined ? "" : stateName(claim);
    };
    await until("the release is tried", async () => (await state()) === "RELEASING");
    const unpublished = async () =>
      (await cluster.backend.client.record()).filter(({ method }) => method === "ControllerUnpublishVolume");
    expect(await unpublished()).toEqual([]);

    // The storage knows that the machine is dead: what it polices is that nobody detaches from a living one.
    await cluster.backend.client.fence("node-a");
    const { outcome } = await repair.abandonClaim({ ...asked, dryRun: true });
    expect(outcome?.consequence?.effects.join("\n")).toContain("the agent of node node-a was not heard");
    expect(await unpublished()).toEqual([]);
    await repair.abandonClaim({ ...asked, confirm: outcome?.confirmWith ?? "" });
    await until("the claim is over", async () => (await state()) === "FAILED");
    const next = await claimVolume(cluster, "data", { node: "node-b", workload: "next" });
    expect(stateName(next)).toBe("ACTIVE");
    expect(await cluster.backend.client.violations()).toEqual([]);
    const { records } = await repair.listAudit({ namespace, volume: "data" });
    expect(records).toMatchObject([{ verb: "AbandonClaim", node: "node-a", claimUid: held.uid }]);
  });
});
