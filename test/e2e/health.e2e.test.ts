/**
 * A plugin of CSI 1.13 says what is wrong with a volume, at its controller half and at a node's: what Explain, the events, placement and
 * the metrics make of each status. A plugin of 1.12 beside it is served as ever: condition.e2e.test.ts.
 */
import { EventServiceDefinition, EventSeverity } from "@holdfast/shared/gen/holdfast/v1/event";
import { PlacementObstacle, PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { csi113 } from "@holdfast/sim-plugin/backend/capabilities";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  namespace,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const id = "data";
const nameIn = (words: Readonly<Record<string, number>>, value: number): string =>
  Object.keys(words).find((word) => words[word] === value) ?? String(value);
const statuses = [
  { status: 1, reason: "PathLost", message: "one of two paths" },
  { status: 2, reason: "PortalsDown", message: "" },
  { status: 3, reason: "DisksLost", message: "two disks of one stripe" },
  { status: 9, reason: "MultipathLoss", message: "from the future" },
];

const stageCalls = async (cluster: Cluster, externalId: string) =>
  (await cluster.backend.client.record()).filter(
    ({ method, volume }) => method === "NodeStageVolume" && volume === externalId,
  );

describe.skipIf(!root)("the health of a volume over real processes", () => {
  let cluster: Cluster;
  let channel: GrpcChannel;

  beforeAll(async () => {
    cluster = await startCluster({
      nodes: ["node-a", "node-b"],
      realMounts: true,
      backend: { capabilities: csi113 },
      controllerEnv: { HOLDFAST_CONDITION_INTERVAL: "150ms" },
      agentEnv: { HOLDFAST_STATS_MAX_AGE: "1s" },
    });
    channel = createGrpcChannel(cluster.address);
  });
  afterAll(async () => {
    channel?.close();
    await cluster?.stop();
  });

  const log = createMemoryLogger();
  const shown = async () => (await cluster.volumes.getVolume({ namespace, id })).volume?.health ?? [];
  const events = async (resumeToken: string, last: RegExp) => {
    const signal = AbortSignal.timeout(60_000);
    const client = createGrpcClient(EventServiceDefinition, channel, { log });
    for await (const { event } of client.watchEvents({ filter: { namespace, volume: id }, resumeToken }, { signal }))
      if (event !== undefined && last.test(event.reason)) return event;
    throw new Error("the watch ended without a word");
  };
  const position = async (): Promise<string> => {
    const signal = AbortSignal.timeout(60_000);
    const client = createGrpcClient(EventServiceDefinition, channel, { log });
    for await (const { resumeToken } of client.watchEvents({ filter: { namespace } }, { signal })) return resumeToken;
    throw new Error("the watch ended without a word");
  };
  const placement = async () => {
    const client = createGrpcClient(PlacementServiceDefinition, channel, { log });
    const request = {
      namespace,
      workload: "asker",
      claims: [{ volume: id }],
      afterWorkloads: ["w-data"],
      pageSize: 10,
    };
    const { nodes } = await client.checkPlacement(request);
    return nodes.map(({ node, reasons }) => [
      node,
      ...reasons.map(({ obstacle }) => nameIn(PlacementObstacle, obstacle)),
    ]);
  };

  /** What the controller counts, once its last round has seen it. */
  const metrics = async (status: string): Promise<string> => {
    const admin = await cluster.controller().line((line) => line["message"] === "admin listening", "its admin address");
    return await until(
      "the metric to count it",
      async () => {
        const text = await (await fetch(`http://${String(admin["address"])}/metrics`)).text();
        return text.split("\n").find((line) => line.startsWith("holdfast_volumes_unwell{") && line.includes(status));
      },
      60_000,
    );
  };

  it("says for each status on each side what is the matter, and acts on none that it does not know", async () => {
    const { externalId } = await makeVolume(cluster, id);
    await claimVolume(cluster, id);
    const told: unknown[] = [];
    for (const side of [[], ["node-a"]] as const)
      for (const entry of statuses) {
        const from = await position();
        await cluster.backend.client.setHealth(externalId, [entry], ...side);
        await until("the health to be shown", async () => (await shown()).length === 1, 60_000);
        const event = await events(from, /^VOLUME_HEALTH_/);
        const { findings, nextActions } = await cluster.volumes.explainVolume({ namespace, id });
        told.push({
          side: side[0] ?? "backend",
          said: `${entry.status} ${entry.reason}`,
          shown: (await shown()).map(({ node, entries }) => [node, ...entries.map(({ status }) => status)]),
          explain: findings.filter((line) => line.includes(entry.reason)),
          next: nextActions,
          event: [event.reason, nameIn(EventSeverity, event.severity), event.message],
          placement: await placement(),
          metrics: await metrics(`"${(await shown())[0]?.entries[0]?.status}"`),
        });
        await cluster.backend.client.setHealth(externalId, [], ...side);
        await until("it to be over", async () => (await shown()).length === 0, 60_000);
      }
    expect(told).toHaveLength(8);
    await expect(`${JSON.stringify(told, undefined, 2)}\n`).toMatchFileSnapshot("health.golden.txt");
    await releaseWorkload(cluster, "w-data");
    await removeVolume(cluster, id);
    await expectClean(cluster);
  });

  it("stands on the claim of a volume that cannot be staged, and is asked once for all of its failures", async () => {
    const { externalId } = await makeVolume(cluster, "stuck");
    await cluster.backend.client.setHealth(
      externalId,
      [{ status: 2, reason: "PathsLost", message: "none left" }],
      "node-a",
    );
    await cluster.backend.client.setFaults([{ method: "NodeStageVolume", code: "UNAVAILABLE", times: "always" }]);
    const made = { namespace, workload: "w-stuck", node: "node-a", claims: [{ volume: "stuck" }] };
    await cluster.claims.createClaims(made);
    const words = "asked for its health, it says INACCESSIBLE (PathsLost): none left";
    await until(
      "the words to stand in Explain",
      async () => {
        const { findings } = await cluster.volumes.explainVolume({ namespace, id: "stuck" });
        return findings.some((line) => line.includes("Claim") && line.includes(words));
      },
      60_000,
    );
    await until("three failures", async () => (await stageCalls(cluster, externalId)).length >= 3, 60_000);
    const asked = (await cluster.backend.client.record()).filter(
      ({ method, volume }) => method === "NodeGetVolumeHealth" && volume === externalId,
    );
    expect(asked).toHaveLength(1);
    await cluster.backend.client.setFaults([]);
    await until(
      "the claim to be active",
      async () => {
        const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: "stuck" } });
        return claims.some((claim) => stateName(claim) === "ACTIVE");
      },
      60_000,
    );
    await releaseWorkload(cluster, "w-stuck");
    await removeVolume(cluster, "stuck");
    await expectClean(cluster);
  });

  it("[C82] is kept when the backend does not know the volume any more, which is looked up", async () => {
    const { externalId } = await makeVolume(cluster, "lost");
    const { client } = cluster.backend;
    await client.setHealth(externalId, [{ status: 1, reason: "PathLost", message: "" }]);
    const lost = async () => (await cluster.volumes.getVolume({ namespace, id: "lost" })).volume;
    await until("its health to be shown", async () => ((await lost())?.health.length ?? 0) > 0, 60_000);
    const calls = async (method: string) =>
      (await client.record()).filter((call) => call.method === method && call.volume === externalId).length;
    await client.dropVolume(externalId);
    await until("the look", async () => (await calls("ControllerGetVolume")) > 0, 60_000);
    expect(await calls("ControllerGetVolumeHealth")).toBeGreaterThan(0);
    expect(await lost()).toMatchObject({ blocked: undefined, health: [{ node: "" }] });
    await removeVolume(cluster, "lost");
  });

  it("of the way to the storage is shown with the node's plugin, told, and counted in placement", async () => {
    await makeVolume(cluster, id);
    const client = createGrpcClient(EventServiceDefinition, channel, { log });
    const told: unknown[] = [];
    for (const { status, reason, message } of statuses.filter((entry) => entry.status !== 3)) {
      const from = await position();
      await cluster.backend.client.setStorageHealth("node-a", [{ status, reason, message }]);
      const plugin = await until(
        "the plugin to say it",
        async () => {
          const { node } = await cluster.nodes.getNode({ name: "node-a" });
          return node?.plugins.find(({ storageHealth }) => storageHealth.some((entry) => entry.reason === reason));
        },
        60_000,
      );
      const watch = client.watchEvents(
        { filter: { node: "node-a" }, resumeToken: from },
        { signal: AbortSignal.timeout(60_000) },
      );
      for await (const { event } of watch)
        if (event?.reason.startsWith("NODE_STORAGE_")) {
          told.push({
            said: `${status} ${reason}`,
            shown: plugin.storageHealth.map((entry) => [entry.status, entry.reason, entry.message]),
            event: [event.reason, nameIn(EventSeverity, event.severity), event.message],
            placement: await placement(),
          });
          break;
        }
    }
    await cluster.backend.client.setStorageHealth("node-a", []);
    expect(told).toHaveLength(3);
    await expect(`${JSON.stringify(told, undefined, 2)}\n`).toMatchFileSnapshot("storage-health.golden.txt");
    await removeVolume(cluster, id);
    await expectClean(cluster);
  });
});
