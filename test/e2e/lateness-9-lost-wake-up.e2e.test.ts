/**
 * A held answer on the second controller, whose events are late: another read brings the newest revision into its memory first. The
 * event that comes then has to end the wait all the same.
 */
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { startProcess } from "../harness/managed-process.ts";
import { claimVolume, expectClean, makeVolume, namespace, removeVolume, stateName } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

/** The caller's own limit for the wait; the event ends it long before. */
const waitSeconds = 20;

describe.skipIf(!root)("lateness 9: a wait that an event has to end", () => {
  const stops: (() => unknown)[] = [];
  let redis: RedisServer;
  let proxy: TcpProxy;
  let cluster: Cluster;
  let second: Awaited<ReturnType<typeof startSecond>>;

  /** It reaches no plugin: what is owed to one is done by the first. */
  const startSecond = async () => {
    const pluginDir = path.join(cluster.dir, "none");
    await mkdir(pluginDir, { mode: 0o700 });
    const controller = startProcess({
      name: "second controller",
      command: [process.execPath, path.resolve(import.meta.dirname, "../../services/controller/src/main.ts")],
      env: {
        HOLDFAST_LISTEN: "127.0.0.1:0",
        HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
        HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
        HOLDFAST_STORE: redis.url.replace(String(redis.port), String(proxy.port)),
        HOLDFAST_STATE_DIR: path.join(cluster.dir, "second"),
        HOLDFAST_PLUGIN_DIR: pluginDir,
      },
    });
    stops.push(() => controller.kill("SIGTERM"));
    const { address } = await controller.line((line) => line["message"] === "ready", "its line `ready`");
    const channel = createGrpcChannel(String(address));
    stops.push(() => channel.close());
    const client = {
      log: createMemoryLogger(),
      identity: { role: "scheduler", name: "test" },
      defaultDeadlineMs: 60_000,
    } as const;
    return {
      claims: createGrpcClient(ClaimServiceDefinition, channel, client),
      volumes: createGrpcClient(VolumeServiceDefinition, channel, client),
    };
  };

  beforeAll(async () => {
    redis = await startRedisServer();
    stops.push(() => redis.stop());
    proxy = await startTcpProxy({ port: redis.port, looksFor: (chunk) => chunk.includes("XREAD") });
    stops.push(() => proxy.close());
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true, store: redis.url });
    stops.push(() => cluster.stop());
    second = await startSecond();
  });
  afterAll(async () => {
    for (const stop of stops.reverse()) await stop();
  });

  it("ReleaseClaims answers when the claim is over, also if a read knew of it before the event did", async () => {
    await makeVolume(cluster, "data");
    await claimVolume(cluster, "data", { workload: "web" });
    // The second one remembers the volume and follows the events.
    await until("the second controller to see the claim", async () => {
      const { volume } = await second.volumes.getVolume({ namespace, id: "data" });
      return volume !== undefined;
    });
    proxy.holdAnswers(true);
    const released = second.claims.releaseClaims({
      namespace,
      workload: "web",
      waitFor: { seconds: BigInt(waitSeconds), nanos: 0 },
    });
    const deadline = new Promise<"slept to its deadline">((resolve) => {
      setTimeout(resolve, (waitSeconds - 1) * 1_000, "slept to its deadline").unref();
    });
    await until("the first controller to have ended the claim", async () => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, workload: "web" } });
      return claims.every((claim) => stateName(claim) === "RELEASED");
    });
    // Another caller's read: the newest revision is in the memory of the second controller before its event.
    await second.volumes.getVolume({ namespace, id: "data" });
    proxy.holdAnswers(false);
    const answered = await Promise.race([released, deadline]);
    expect(answered).not.toBe("slept to its deadline");
    expect((await released).claims.map(stateName)).toEqual(["RELEASED"]);
    await removeVolume(cluster, "data");
    await expectClean(cluster);
  });
});
