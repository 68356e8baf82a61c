/** A plugin's profile bounds nodes of one class, and no others. */
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { claimVolume, makeVolume, plugin, releaseWorkload, stateName } from "../harness/scenario.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("classes of nodes in a plugin's profile", () => {
  let cluster: Cluster;
  let channel: GrpcChannel;
  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["gpu-1", "web-1"], realMounts: true });
    channel = createGrpcChannel(cluster.address);
    for (const id of ["one", "two", "three", "four"]) await makeVolume(cluster, id);
  });
  afterAll(async () => {
    channel?.close();
    await cluster?.stop();
  });

  it("bound the nodes that they fit, by the first that fits, and an empty list bounds none", async () => {
    const plugins = createGrpcClient(PluginServiceDefinition, channel, {
      log: createMemoryLogger(),
      identity: { role: "operator", name: "ada" },
    });
    const nodeClasses = [
      { nodes: "gpu-*", maxVolumes: 1n },
      { nodes: "gpu-1", maxVolumes: 9n },
    ];
    const set = await plugins.setPluginProfile({ name: plugin, profile: { nodeClasses } });
    expect(set.plugin?.profile?.nodeClasses).toMatchObject(nodeClasses);
    expect(stateName(await claimVolume(cluster, "one", { node: "gpu-1" }))).toBe("ACTIVE");
    await expect(claimVolume(cluster, "two", { node: "gpu-1" })).rejects.toMatchObject({ reason: "ATTACH_LIMIT" });
    for (const id of ["two", "three"])
      expect(stateName(await claimVolume(cluster, id, { node: "web-1" })), id).toBe("ACTIVE");
    await plugins.setPluginProfile({ name: plugin, profile: {} });
    expect(stateName(await claimVolume(cluster, "four", { node: "gpu-1" }))).toBe("ACTIVE");
    for (const id of ["one", "two", "three", "four"]) await releaseWorkload(cluster, `w-${id}`);
  });
});
