import path from "node:path";
import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode, WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { type Node, NodeServiceDefinition, NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { SnapshotState } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, expect, test } from "vitest";
import { startProcess } from "../harness/managed-process.ts";
import { startTwoControllers } from "../harness/two-controllers.ts";
import { until } from "../harness/until.ts";
import { sample } from "../support/full.ts";

const cleanups: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const namespace = "default";
const waitFor = { seconds: 60n, nanos: 0 };
const fleetSize = sample(200, 50);
const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

test.runIf(root)(
  "one of two controllers goes and comes back under a fleet of agents with claims in flight: no node changes its state, no claim fails",
  async () => {
    const nodes = ["node-a", "node-b"];
    const { cluster, stop } = await startTwoControllers(nodes);
    cleanups.push(stop);
    const fleet = startProcess({
      name: "fleet",
      command: [
        process.execPath,
        path.resolve(import.meta.dirname, "../../bench/fleet-main.ts"),
        [cluster.agentAddress, cluster.second.agentAddress].join(),
        String(fleetSize),
        "0",
      ],
    });
    cleanups.push(() => fleet.kill("SIGKILL"));
    await fleet.line((line) => line["message"] === "linked", "its line `linked`");

    const channel = createGrpcChannel(cluster.second.address);
    cleanups.push(() => channel.close());
    const staying = createGrpcClient(NodeServiceDefinition, channel, {
      log: createMemoryLogger(),
      identity: { role: "scheduler", name: "test" },
    });
    const watching = new AbortController();
    cleanups.push(() => watching.abort());
    const states: Node[] = [];
    let synced = false;
    void (async () => {
      for await (const { kind, node } of staying.watchNodes({}, { signal: watching.signal })) {
        if (kind === WatchKind.WATCH_KIND_SYNCED) synced = true;
        else if (node !== undefined) states.push(node);
      }
    })().catch(() => undefined);
    await until("the watch to begin", () => synced);
    expect(new Set(states.map(({ name }) => name)).size).toBe(fleetSize + nodes.length);

    const volumes = Array.from({ length: 8 }, (_, index) => `v${index}`);
    for (const id of volumes)
      await cluster.volumes.createVolume({
        namespace,
        id,
        plugin: "sim.holdfast.dev",
        capacity: { requiredBytes: 1n << 24n },
        capabilities: [
          {
            attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
            accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
          },
        ],
        waitFor,
      });
    const { claims } = cluster.second.clients;
    let working = true;
    const ended: ClaimState[] = [];
    const work = Promise.all(
      volumes.map(async (volume, index) => {
        for (let turn = 0; working; turn += 1) {
          const workload = `w-${volume}-${turn}`;
          const node = nodes[(index + turn) % nodes.length] ?? "";
          const made = await claims.createClaims({ namespace, workload, node, claims: [{ volume }], waitFor });
          ended.push(...made.claims.map(({ state }) => state));
          const gone = await claims.releaseClaims({ namespace, workload, waitFor });
          ended.push(...gone.claims.map(({ state }) => state));
        }
      }),
    );
    await until("claims on their way", () => ended.length > 20);
    await cluster.controller().kill("SIGTERM");
    const during = ended.length;
    await until("claims while it is away", () => ended.length > during + 20);
    await cluster.startController();
    const after = ended.length;
    await until("claims when it is back", () => ended.length > after + 20);
    working = false;
    await work;

    const fine: ReadonlySet<ClaimState> = new Set([ClaimState.CLAIM_STATE_ACTIVE, ClaimState.CLAIM_STATE_RELEASED]);
    expect(ended.filter((state) => !fine.has(state))).toEqual([]);
    expect(states.filter(({ state }) => state !== NodeState.NODE_STATE_READY).map(({ name }) => name)).toEqual([]);
  },
);

test("[O3] a controller that is stopped leaves no bar: calls that waited for their turn go to the other one at once", async () => {
  const { cluster, stop } = await startTwoControllers([]);
  cleanups.push(stop);
  const channel = createGrpcChannel(cluster.second.address);
  cleanups.push(() => channel.close());
  const plugins = createGrpcClient(PluginServiceDefinition, channel, {
    log: createMemoryLogger(),
    identity: { role: "operator", name: "test" },
  });
  const plugin = "sim.holdfast.dev";
  await plugins.setPluginProfile({ name: plugin, profile: { maxConcurrentCalls: 2 } });
  const { volumes, snapshots } = cluster.second.clients;
  const volume = (id: string) =>
    volumes.createVolume({
      namespace,
      id,
      plugin,
      capacity: { requiredBytes: 1n << 24n },
      capabilities: [{ attachmentMode: 1, accessMode: 1 }],
      waitFor,
    });
  await volume("source");
  for (const method of ["CreateVolume", "CreateSnapshot"] as const)
    await cluster.backend.client.addFault({ method, hangMs: 100, when: "before", times: 100 });
  const ids = Array.from({ length: 12 }, (_, index) => `v${index}`);
  const made = Promise.all([
    Promise.all(ids.map(volume)),
    Promise.all(ids.map((id) => snapshots.createSnapshot({ namespace, id, volume: "source", waitFor }))),
  ]);
  await until("calls of both controllers", async () => {
    const creates = (await cluster.backend.client.record()).filter(({ method }) => method === "CreateVolume");
    return new Set(creates.map(({ instance }) => instance)).size === 2;
  });
  await cluster.controller().kill("SIGTERM");
  const [newVolumes, newSnapshots] = await made;
  for (const one of newVolumes) expect(one.volume?.state).toBe(VolumeState.VOLUME_STATE_AVAILABLE);
  for (const one of newSnapshots) expect(one.snapshot?.state).toBe(SnapshotState.SNAPSHOT_STATE_READY);
  expect(cluster.second.process().output()).not.toContain("behind a bar");
});
