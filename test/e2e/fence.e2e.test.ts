/** A node that is dead for good, and one that only seemed so, over real processes: fenced on evidence, and cleaned when it comes back. */
import type { Claim } from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { FenceMethod, PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
import {
  blockWriter,
  claimVolume,
  expectClean,
  fileWriter,
  makeVolume,
  mountsUnder,
  namespace,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const sharedWriter = {
  attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
  accessMode: AccessMode.ACCESS_MODE_MULTI_NODE_MULTI_WRITER,
};
const volumes = { db: fileWriter, raw: blockWriter, shared: sharedWriter } as const;
const ids = Object.keys(volumes);
const evidence = { powerOffAttestation: "the PDU shows 0 W, ticket 4711", reason: "host lost" };
const waitFor = { seconds: 45n, nanos: 0 };

describe.skipIf(!root)("a node that is fenced", () => {
  let redis: RedisServer;
  let cluster: Cluster;
  let channel: GrpcChannel;

  beforeAll(async () => {
    redis = await startRedisServer();
    cluster = await startCluster({
      store: redis.url,
      second: {},
      nodes: ["node-a", "node-b"],
      realMounts: true,
      controllerEnv: { HOLDFAST_LINK_GRACE: "1s" },
    });
    channel = createGrpcChannel(cluster.address);
  });
  beforeEach(() => cluster.backend.client.clear());
  afterAll(async () => {
    channel?.close();
    await cluster?.stop();
    await redis?.stop();
  });

  const nodeOf = async (name: string) => (await cluster.nodes.getNode({ name })).node;
  const becomes = (name: string, state: NodeState) =>
    until(`${name} to be in state ${state}`, async () => (await nodeOf(name))?.state === state);
  const stateOf = async (volume: string, workload: string): Promise<string> => {
    const { claim } = await cluster.claims.getClaim({ namespace, volume, workload, alias: volume });
    return claim === undefined ? "" : stateName(claim);
  };
  /** What reached the plugin, of one side, in the order in which it began: `NodeUnpublishVolume db`. */
  const callsOf = async (wanted: RegExp, node: string): Promise<readonly string[]> => {
    const names = new Map<string, string>();
    for (const id of ids) {
      const { volume } = await cluster.volumes.getVolume({ namespace, id });
      names.set(volume?.externalId ?? "", id);
    }
    return (await cluster.backend.client.record())
      .filter((call) => wanted.test(call.method) && call.node === node)
      .map(({ method, volume = "" }) => `${method} ${names.get(volume) ?? volume}`);
  };
  const controllerCalls = (node: string) => callsOf(/^Controller(Un)?[Pp]ublish/, node);
  const mountCalls = (node: string) => callsOf(/^Node(Un)?(stage|publish)/i, node);
  const claimedOnA = async (): Promise<readonly Claim[]> => {
    const claims: Claim[] = [];
    for (const id of ids) {
      await makeVolume(cluster, id, volumes[id as keyof typeof volumes]);
      const claim = await claimVolume(cluster, id);
      expect(stateName(claim)).toBe("ACTIVE");
      claims.push(claim);
    }
    return claims;
  };
  const queuedOnB = async (id: string): Promise<void> => {
    const { claims } = await cluster.claims.createClaims({
      namespace,
      workload: `next-${id}`,
      node: "node-b",
      claims: [{ volume: id }],
      queue: { enabled: true },
    });
    expect(claims.map(stateName)).toEqual(["QUEUED"]);
  };
  const ended = async (): Promise<void> => {
    for (const id of ids) {
      await releaseWorkload(cluster, `next-${id}`);
      await releaseWorkload(cluster, `again-${id}`);
    }
    for (const id of ids) await removeVolume(cluster, id);
    await expectClean(cluster);
  };
  /** Each volume by itself: first every target, then the stage, and nothing else. */
  const cleaned = ["NodeUnpublishVolume", "NodeUnstageVolume"];
  const expectCleaned = (calls: readonly string[]): void => {
    for (const id of ids)
      expect(
        calls.filter((call) => call.endsWith(` ${id}`)).map((call) => call.split(" ")[0]),
        id,
      ).toEqual(cleaned);
    expect(calls).toHaveLength(cleaned.length * ids.length);
  };

  it("[I1] [I2] [W11] moves nothing before the fence, everything after it, and serves again only once it is clean", async () => {
    const claims = await claimedOnA();
    await queuedOnB("db");
    await cluster.node("node-a").agent().kill("SIGKILL");
    process.kill(cluster.node("node-a").plugin().pid, "SIGKILL");
    await becomes("node-a", NodeState.NODE_STATE_SUSPECT);

    // Nothing moves, and each says why.
    const before = await controllerCalls("node-a");
    for (const id of ids) {
      expect(await stateOf(id, `w-${id}`)).toBe("ACTIVE");
      const { findings, nextActions } = await cluster.volumes.explainVolume({ namespace, id });
      expect(findings.join("\n")).toContain("Node node-a is silent: its claims keep the volume");
      expect(nextActions).toContain("holdfast node fence node-a");
    }
    expect(await stateOf("db", "next-db")).toBe("QUEUED");
    const asked = { name: "node-a", ...evidence, expectedNodeEpoch: 1n };
    const { consequence } = await cluster.nodes.fenceNode({ ...asked, dryRun: true });
    for (const { uid } of claims) expect(consequence?.effects.join("\n")).toContain(`claim ${uid} of w-`);
    expect(await controllerCalls("node-a")).toEqual(before);
    expect((await nodeOf("node-a"))?.nodeEpoch).toBe(1n);

    // The storage knows that the machine is dead: what it polices is that nobody detaches from a living one.
    await cluster.backend.client.fence("node-a");
    // As it is printed, with what was seen: it waits until the node has nothing more.
    const { nextActions } = await cluster.volumes.explainVolume({ namespace, id: "db" });
    const line = nextActions.find((one) => one.startsWith("holdfast node fence")) ?? "";
    const seen = ["--powered-off", evidence.powerOffAttestation, "--reason", evidence.reason];
    const fenced = await cliRun([...line.split(" ").slice(1), ...seen], { address: cluster.address });
    expect(fenced.code, `${line}: ${fenced.err}`).toBe(0);
    const node = await nodeOf("node-a");
    expect(node).toMatchObject({ state: NodeState.NODE_STATE_QUARANTINED, nodeEpoch: 2n });
    expect(node?.stateMessage).toContain("the PDU shows 0 W, ticket 4711");
    expect((await controllerCalls("node-a")).slice(before.length).toSorted()).toEqual(
      ids.map((id) => `ControllerUnpublishVolume ${id}`).toSorted(),
    );
    for (const id of ids) expect(await stateOf(id, `w-${id}`)).toBe("FENCED");
    await until("who waited to be granted", async () => (await stateOf("db", "next-db")) === "ACTIVE");
    for (const id of ["raw", "shared"])
      expect(stateName(await claimVolume(cluster, id, { node: "node-b", workload: `next-${id}` }))).toBe("ACTIVE");
    const { records } = await cluster.repair.listAudit({ verb: "FenceNode" });
    expect(records).toMatchObject([{ node: "node-a", reason: "host lost", evidence: evidence.powerOffAttestation }]);

    const told = async () => (await cluster.repair.listStuck({ node: "node-a", reasons: ["NODE_FENCED"] })).stuck;
    expect(await told()).toMatchObject([{ blocked: { clearWith: expect.stringMatching(/^start its agent/) } }]);

    // It comes back with its old mounts and its journal; one unmount takes its time, so that the quarantine is seen.
    expect((await mountsUnder(cluster.node("node-a").rootDir)).length).toBeGreaterThan(0);
    const mountsBefore = (await mountCalls("node-a")).length;
    await cluster.backend.client.addFault({ method: "NodeUnstageVolume", hangMs: 3_000, when: "before", times: 1 });
    await cluster.node("node-a").startPlugin();
    await cluster.node("node-a").startAgent();
    await until("its cleaning to begin", async () => (await mountCalls("node-a")).length > mountsBefore);
    expect((await nodeOf("node-a"))?.state).toBe(NodeState.NODE_STATE_QUARANTINED);
    await makeVolume(cluster, "early");
    await expect(claimVolume(cluster, "early")).rejects.toMatchObject({ reason: "NODE_NOT_READY" });
    await becomes("node-a", NodeState.NODE_STATE_READY);
    expect(await told()).toEqual([]);
    expectCleaned((await mountCalls("node-a")).slice(mountsBefore));
    expect(await mountsUnder(cluster.node("node-a").rootDir)).toEqual([]);
    expect((await nodeOf("node-a"))?.nodeEpoch).toBe(2n);
    for (const id of ids) expect(await stateOf(id, `next-${id}`)).toBe("ACTIVE");

    // And new claims work there.
    await cluster.backend.client.reboot("node-a");
    await until("node-a to take claims", async () => (await nodeOf("node-a"))?.schedulable);
    expect(stateName(await claimVolume(cluster, "early"))).toBe("ACTIVE");
    await releaseWorkload(cluster, "w-early");
    await removeVolume(cluster, "early");
    await ended();
  });

  it("[I1] [F4] whose agent lives on unmounts once it hears of the fence, and mounts nothing of before", async () => {
    const plugins = createGrpcClient(PluginServiceDefinition, channel, {
      log: createMemoryLogger(),
      identity: { role: "operator", name: "o1" },
    });
    await plugins.setPluginProfile({ name: plugin, profile: { fence: FenceMethod.FENCE_METHOD_ON_DETACH } });
    await claimedOnA();
    for (const id of ["db", "raw"]) await queuedOnB(id);
    const epoch = (await nodeOf("node-a"))?.nodeEpoch ?? 0n;
    const frozen = freeze(cluster.node("node-a").agent());
    onTestFinished(frozen.thaw);
    await becomes("node-a", NodeState.NODE_STATE_SUSPECT);
    await cluster.backend.client.fence("node-a");
    const asked = { name: "node-a", detachFences: true, reason: "it hangs" };
    await expect(cluster.nodes.fenceNode({ ...asked, expectedNodeEpoch: epoch + 1n })).rejects.toMatchObject({
      reason: "REVISION_CONFLICT",
    });
    await cluster.nodes.fenceNode({ ...asked, expectedNodeEpoch: epoch, waitFor });
    for (const id of ["db", "raw"])
      await until(`${id} to be granted`, async () => (await stateOf(id, `next-${id}`)) === "ACTIVE");

    const mountsBefore = (await mountCalls("node-a")).length;
    frozen.thaw();
    await becomes("node-a", NodeState.NODE_STATE_READY);
    expectCleaned((await mountCalls("node-a")).slice(mountsBefore));
    expect(await mountsUnder(cluster.node("node-a").rootDir)).toEqual([]);
    expect((await nodeOf("node-a"))?.nodeEpoch).toBe(epoch + 1n);
    for (const id of ["db", "raw"]) expect(await stateOf(id, `next-${id}`)).toBe("ACTIVE");
    await cluster.backend.client.reboot("node-a");
    await until("node-a to take claims", async () => (await nodeOf("node-a"))?.schedulable);
    expect(stateName(await claimVolume(cluster, "shared", { workload: "again-shared" }))).toBe("ACTIVE");
    await ended();
  });
});
