import { statfs, truncate } from "node:fs/promises";
import type { Volume } from "@holdfast/shared/gen/holdfast/v1/volume";
import { VolumeChangeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { loopsUnder } from "../harness/loop-files.ts";
import {
  blockWriter,
  claimVolume,
  expectClean,
  fileWriter,
  growVolume,
  isGrown,
  isModified,
  makeVolume,
  modifyVolume,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: loop devices and real mounts need root");

const MiB = 1n << 20n;

const volumeOf = async (cluster: Cluster, id: string): Promise<Volume> => {
  const { volume } = await cluster.volumes.getVolume({ namespace, id });
  if (volume === undefined) throw new Error("GetVolume answered without a volume");
  return volume;
};

const released = (cluster: Cluster, workload: string): Promise<unknown> =>
  persistently("the release", async () => {
    const claims = await releaseWorkload(cluster, workload);
    if (claims.some((one) => stateName(one) !== "RELEASED")) throw new Error("not released yet");
  });

describe.skipIf(!root)("[C60] [O56] [W36] a file system of the local driver grows", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], localDriver: { HOLDFAST_LOCAL_ATTACH: "1" } });
  });
  afterAll(() => cluster?.stop());

  const bytesAt = async (path: string): Promise<number> => {
    const { blocks, bsize } = await statfs(path);
    return blocks * bsize;
  };
  const made = (id: string, fsType: "ext4" | "xfs" | "none" = "ext4") =>
    makeVolume(cluster, id, fsType === "none" ? blockWriter : fileWriter, {
      plugin: "local.holdfast.dev",
      bytes: fsType === "xfs" ? 320n * MiB : 32n * MiB,
      parameters: { type: "image", ...(fsType === "none" ? {} : { fsType }) },
    });
  const claimed = async (id: string) => {
    const claim = await persistently("the claim", () => claimVolume(cluster, id));
    expect(stateName(claim)).toBe("ACTIVE");
    return claim;
  };

  const smaller = async (id: string) => {
    const { findings } = await cluster.volumes.explainVolume({ namespace, id });
    return findings.filter((line) => line.includes("were asked for"));
  };

  it("while it is mounted, and the figures say so", async () => {
    await made("online", "xfs");
    const { hostPath } = await claimed("online");
    const before = await bytesAt(hostPath);
    const grown = await growVolume(cluster, "online", 400n * MiB);
    expect(isGrown(grown, 400n * MiB), JSON.stringify(grown?.expansion?.nodes, String)).toBe(true);
    expect(await bytesAt(hostPath)).toBeGreaterThan(before + 50 * 1024 * 1024);
    await until(
      "figures of the larger file system",
      async () => {
        const { nodes } = await cluster.volumes.getVolumeStats({ namespace, id: "online" });
        expect(nodes.map(({ node, error }) => [node, error])).toEqual([["node-a", undefined]]);
        return Number(nodes[0]?.usage[0]?.total ?? 0n) > before + 50 * 1024 * 1024;
      },
      60_000,
    );
    const { volumes } = await cluster.nodes.getNodeStats({ name: "node-a" });
    expect(volumes.map(({ volume }) => volume)).toContain("online");
    await released(cluster, "w-online");
    await persistently("the deletion", () => removeVolume(cluster, "online"));
  });

  it("[C61] or at its next stage, when the driver may not grow it mounted (ext4 without CAP_SYS_RESOURCE)", async () => {
    await made("ext4");
    await claimed("ext4");
    const asked = await growVolume(cluster, "ext4", 96n * MiB);
    expect(asked?.capacity?.actualBytes).toBe(96n * MiB);
    if (!isGrown(asked, 96n * MiB)) {
      expect(asked?.expansion).toMatchObject({ pendingNodes: ["node-a"], blocked: { reason: "EXPAND_IN_USE" } });
      const { nextActions } = await cluster.volumes.explainVolume({ namespace, id: "ext4" });
      expect(nextActions.join("\n")).toContain("release its claims");
    }
    await released(cluster, "w-ext4");
    const { hostPath } = await persistently("the claim", () => claimVolume(cluster, "ext4", { workload: "next" }));
    expect(await bytesAt(hostPath)).toBeGreaterThan(70 * 1024 * 1024);
    await until("nothing to be owed", async () => isGrown(await volumeOf(cluster, "ext4"), 96n * MiB), 60_000);
    await released(cluster, "next");
    await persistently("the deletion", () => removeVolume(cluster, "ext4"));
  });

  it("when it is mounted next, if nobody has it now", async () => {
    await made("offline");
    const grown = await growVolume(cluster, "offline", 96n * MiB);
    expect(grown?.capacity?.actualBytes).toBe(96n * MiB);
    expect(grown?.expansion).toMatchObject({
      state: VolumeChangeState.VOLUME_CHANGE_STATE_NODES,
      controllerDone: true,
      pendingNodes: [],
    });
    const { hostPath } = await claimed("offline");
    expect(await bytesAt(hostPath)).toBeGreaterThan(70 * 1024 * 1024);
    expect((await volumeOf(cluster, "offline")).expansion).toBeUndefined();
    await released(cluster, "w-offline");
    await persistently("the deletion", () => removeVolume(cluster, "offline"));
  });

  it("a device too; a size that the driver refuses leaves the volume as it was", async () => {
    await made("raw", "none");
    expect((await claimed("raw")).device?.sizeBytes).toBe(32n * MiB);
    expect(isGrown(await growVolume(cluster, "raw", 64n * MiB), 64n * MiB)).toBe(true);
    const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: "raw" } });
    expect(claims.map(({ device }) => device?.sizeBytes)).toEqual([64n * MiB]);
    expect(await smaller("raw")).toEqual([]);
    const refused = await growVolume(cluster, "raw", 1n << 52n);
    expect(refused?.capacity?.actualBytes).toBe(64n * MiB);
    expect(refused?.expansion?.state).toBe(VolumeChangeState.VOLUME_CHANGE_STATE_REFUSED);
    expect(refused?.expansion?.lastError?.csiCode).toMatch(/OUT_OF_RANGE|RESOURCE_EXHAUSTED/);
    await released(cluster, "w-raw");
    await persistently("the deletion", () => removeVolume(cluster, "raw"));
  });

  it("[C81] a device that is smaller than was asked for is told of, and held by its claim all the same", async () => {
    await made("cut", "none");
    await claimed("cut");
    const [image] = await loopsUnder(cluster.dir);
    await released(cluster, "w-cut");
    await truncate(image?.file ?? "", Number(8n * MiB));
    const { device } = await persistently("the claim", () => claimVolume(cluster, "cut", { workload: "next" }));
    expect(device?.sizeBytes).toBe(8n * MiB);
    expect(await smaller("cut")).toEqual([
      `Claim cut of workload next on node node-a: its device has ${8n * MiB} bytes, and ${32n * MiB} were asked for. Nothing is held up for it: look at the volume at its backend, and grow it or make another one.`,
    ]);
    const { stuck } = await cluster.repair.listStuck({});
    expect(stuck).toEqual([]);
    await released(cluster, "next");
    await persistently("the deletion", () => removeVolume(cluster, "cut"));
  });
});

describe.skipIf(!root)("[C59] [C61] [C62] sizes and parameters of the simulated plugin", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster({
      nodes: ["node-a"],
      backend: {
        capabilities: { without: ["plugin.EXPANSION_ONLINE"], with: ["plugin.EXPANSION_OFFLINE"] },
        mutableKeys: ["tier", "iops"],
      },
      realMounts: true,
    });
  });
  afterAll(() => cluster?.stop());

  const calls = async (method: string) =>
    (await cluster.backend.client.record()).filter((call) => call.method === method);

  it("[C59] waits for the last claim to go, and the next stage grows it", async () => {
    await makeVolume(cluster, "v1");
    await claimVolume(cluster, "v1");
    const waiting = await growVolume(cluster, "v1");
    expect(waiting?.expansion).toMatchObject({ onlyUnused: true, blocked: { reason: "EXPAND_IN_USE" } });
    expect(await calls("ControllerExpandVolume")).toEqual([]);
    await released(cluster, "w-v1");
    await until("the backend to grow it", async () => isLarge(await volumeOf(cluster, "v1")), 60_000);
    await claimVolume(cluster, "v1", { workload: "next" });
    await until("the node to grow it", async () => isGrown(await volumeOf(cluster, "v1")), 60_000);
    expect(await calls("NodeExpandVolume")).toHaveLength(1);
    await released(cluster, "next");
    await removeVolume(cluster, "v1");
    await expectClean(cluster);
  });

  it("[W54] tells of figures on each node, and of a node whose agent does not answer", async () => {
    await makeVolume(cluster, "v3");
    const claim = await claimVolume(cluster, "v3");
    const figures = async () => (await cluster.volumes.getVolumeStats({ namespace, id: "v3" })).nodes;
    expect(await figures()).toMatchObject([{ node: "node-a", error: undefined, claimUids: [claim.uid] }]);
    await cluster.node("node-a").agent().kill("SIGKILL");
    const silent = await until(
      "the silence to be told",
      async () => {
        const [one] = await figures();
        return one?.error === undefined ? undefined : one;
      },
      60_000,
    );
    expect(silent).toMatchObject({ node: "node-a", error: { reason: "NODE_NOT_READY" } });
    expect(silent.usage.length).toBeGreaterThan(0);
    await cluster.node("node-a").startAgent();
    await until("figures again", async () => (await figures())[0]?.error === undefined, 60_000);
    await released(cluster, "w-v3");
    await persistently("the deletion", () => removeVolume(cluster, "v3"));
    await expectClean(cluster);
  });

  it("[C62] modifies; a key that the plugin does not take leaves all as it was; lost answers are asked for again", async () => {
    await makeVolume(cluster, "v2");
    await cluster.backend.client.setFaults([
      { method: "ControllerModifyVolume", code: "UNAVAILABLE", when: "after", times: 2 },
    ]);
    await persistently("the modification", async () => {
      if (!isModified(await modifyVolume(cluster, "v2"))) throw new Error("not modified yet");
    });
    expect(await calls("ControllerModifyVolume")).toHaveLength(3);
    const refused = await modifyVolume(cluster, "v2", { color: "red" });
    expect(refused?.mutableParameters).toEqual({ tier: "gold" });
    expect(refused?.modification?.state).toBe(VolumeChangeState.VOLUME_CHANGE_STATE_REFUSED);
    expect(refused?.modification?.lastError?.csiCode).toBe("INVALID_ARGUMENT");
    await removeVolume(cluster, "v2");
    await expectClean(cluster);
  });
});

const isLarge = (volume: Volume): boolean => (volume.capacity?.actualBytes ?? 0n) >= 32n * MiB;
