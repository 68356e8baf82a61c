import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import type { SimPluginProcess } from "@holdfast/sim-plugin/processes";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  persistently,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
  volumeStateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const secret = "canary-of-the-relay-71ac";

describe.skipIf(!root)("a controller plugin that runs on nodes only", () => {
  let cluster: Cluster;
  const halves = new Map<string, SimPluginProcess>();

  const startHalf = async (node: string): Promise<void> => {
    if (!halves.has(node)) halves.set(node, await cluster.node(node).startControllerHalf());
  };
  const stopHalf = async (node: string): Promise<void> => {
    await halves.get(node)?.stop();
    halves.delete(node);
  };

  beforeAll(async () => {
    cluster = await startCluster({
      nodes: ["node-a", "node-b"],
      controllerHalvesOn: ["node-a", "node-b"],
      realMounts: true,
      controllerEnv: { HOLDFAST_SECRET_ENV: "RELAY_@test", RELAY_SECRET: JSON.stringify({ key: secret }) },
      logLevel: "debug",
    });
  });
  afterAll(() => cluster?.stop());
  beforeEach(() => cluster.backend.client.clear());

  /** Which instance was asked, call by call. */
  const callsOf = async (method: string): Promise<readonly string[]> =>
    (await cluster.backend.client.record()).filter((call) => call.method === method).map(({ instance }) => instance);

  const usable = (nodes: readonly string[]): Promise<unknown> => {
    const channel = createGrpcChannel(cluster.address);
    onTestFinished(() => channel.close());
    const client = createGrpcClient(PluginServiceDefinition, channel, { log: createMemoryLogger() });
    return until(`the controller half to be on ${nodes.join(" and ")}`, async () => {
      const found = await client.getPlugin({ name: plugin }).catch(() => undefined);
      const seen = found?.plugin?.instances.flatMap(({ node, fingerprint }) =>
        fingerprint?.role === 1 && fingerprint.health === 1 ? [node] : [],
      );
      return seen?.sort().join() === [...nodes].sort().join();
    });
  };

  const wholeLife = async (id: string, node = "node-b"): Promise<void> => {
    await persistently("the volume", async () =>
      expect(volumeStateName(await makeVolume(cluster, id))).toBe("AVAILABLE"),
    );
    expect(stateName(await claimVolume(cluster, id, { node }))).toBe("ACTIVE");
    expect((await releaseWorkload(cluster, `w-${id}`)).map(stateName)).toEqual(["RELEASED"]);
    await removeVolume(cluster, id);
    await expectClean(cluster);
  };

  it("is called through the agent there, from the creation to the deletion; its secret stays in the call", async () => {
    await startHalf("node-a");
    await usable(["node-a"]);
    await wholeLife("plain");
    for (const method of ["CreateVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "DeleteVolume"])
      expect(await callsOf(method), method).toEqual(["node-a"]);
    await cluster.volumes.createVolume({
      namespace: "test",
      id: "secret",
      plugin,
      capacity: { requiredBytes: 16n << 20n },
      capabilities: [{ accessMode: 1, attachmentMode: 1 }],
      secrets: { create: { ref: "env:RELAY_SECRET" }, delete: { ref: "env:RELAY_SECRET" } },
      waitFor: { seconds: 45n, nanos: 0 },
    });
    await removeVolume(cluster, "secret");
    expect(cluster.output()).not.toContain(secret);
  });

  it("[I5] its agent is killed during a call: the same call is made again there and nowhere else, and nothing leaks", async () => {
    for (const node of ["node-a", "node-b"]) await startHalf(node);
    await usable(["node-a", "node-b"]);
    await makeVolume(cluster, "cut");
    // The first attach does its work and never answers.
    await cluster.backend.client.addFault({ method: "ControllerPublishVolume", hang: true, when: "after" });
    const claimed = claimVolume(cluster, "cut", { node: "node-b" });
    await until("the attach to be under way", async () => (await callsOf("ControllerPublishVolume")).length === 1);
    await cluster.node("node-a").agent().kill("SIGKILL");
    // What was asked of the other instance, which could answer at once, would be a second call beside one that may be open.
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(await callsOf("ControllerPublishVolume")).toEqual(["node-a"]);
    await cluster.node("node-a").startAgent();
    expect(stateName(await claimed)).toBe("ACTIVE");
    expect(new Set(await callsOf("ControllerPublishVolume"))).toEqual(new Set(["node-a"]));
    expect((await releaseWorkload(cluster, "w-cut")).map(stateName)).toEqual(["RELEASED"]);
    await removeVolume(cluster, "cut");
    await expectClean(cluster);
  });

  it("moves from one node to another between two calls, and the volume in use does not notice", async () => {
    for (const node of ["node-a", "node-b"]) await startHalf(node);
    await usable(["node-a", "node-b"]);
    await makeVolume(cluster, "moved");
    expect(stateName(await claimVolume(cluster, "moved", { node: "node-b" }))).toBe("ACTIVE");
    const before = (await callsOf("ControllerPublishVolume"))[0] ?? "";
    const after = before === "node-a" ? "node-b" : "node-a";
    await stopHalf(before);
    await usable([after]);
    expect((await releaseWorkload(cluster, "w-moved")).map(stateName)).toEqual(["RELEASED"]);
    expect(await callsOf("ControllerUnpublishVolume")).toEqual([after]);
    await removeVolume(cluster, "moved");
    await expectClean(cluster);
    // And nowhere: what is asked for waits, and goes on when an instance comes.
    await stopHalf(after);
    await usable([]);
    const made = makeVolume(cluster, "waits");
    await startHalf(after);
    expect(volumeStateName(await made)).toBe("AVAILABLE");
    await removeVolume(cluster, "waits");
  });
});
