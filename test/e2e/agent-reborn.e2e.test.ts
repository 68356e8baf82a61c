import { spawnSync } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { admitWaiting } from "../harness/admit-waiting.ts";
import { mutatingCalls } from "../harness/calls.ts";
import { type Cluster, type ClusterNode, startCluster } from "../harness/cluster.ts";
import { nextBoot } from "../harness/next-boot.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  mountsUnder,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("an agent that is not what it was", { timeout: 120_000 }, () => {
  let cluster: Cluster;
  let node: ClusterNode;

  beforeEach(async () => {
    // A person may admit another life of the node once no controller has had its stream for the grace.
    const controllerEnv = { HOLDFAST_LINK_GRACE: "1s" };
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true, controllerEnv });
    node = cluster.node("node-a");
  }, 60_000);
  afterEach(() => cluster.stop());

  /** A claim that is active, with data in its volume. */
  const inUse = async (): Promise<Claim> => {
    await makeVolume(cluster, "v");
    // The controller may not have heard yet that the plugin of an agent that has just come back is well.
    const claim = await persistently("the claim", () => claimVolume(cluster, "v"));
    expect(stateName(claim)).toBe("ACTIVE");
    await writeFile(path.join(claim.hostPath, "data"), "kept");
    return claim;
  };

  const theClaim = async (): Promise<Claim> => {
    const { claims } = await cluster.claims.listClaims({ filter: { namespace } });
    const [claim] = claims;
    if (claim === undefined) throw new Error("the claim is gone");
    return claim;
  };
  const nodeEpochNow = async (): Promise<bigint> =>
    (await cluster.nodes.getNode({ name: node.name })).node?.nodeEpoch ?? 0n;
  const data = ({ hostPath }: Claim): Promise<string> => readFile(path.join(hostPath, "data"), "utf8");
  const mountPoints = async (): Promise<readonly string[]> =>
    (await mountsUnder(node.rootDir)).map((line) => line.split(" ")[4] ?? "").sort();

  /** Nothing is mounted after it, and the plugin is up again. Answers what was. */
  const powerCut = async (): Promise<readonly string[]> => {
    await node.agent().kill("SIGKILL");
    await node.plugin().kill("SIGKILL");
    const lost = await mountPoints();
    for (const at of lost.toReversed()) spawnSync("umount", ["--lazy", at]);
    expect(await mountPoints()).toEqual([]);
    await node.startPlugin();
    return lost;
  };
  const activeAgain = (): Promise<Claim> =>
    until("the claim to be active", async () => {
      const claim = await theClaim();
      return claim.state === ClaimState.CLAIM_STATE_ACTIVE && claim.degradedSince === undefined ? claim : undefined;
    });

  const end = async (): Promise<void> => {
    const over = await persistently("the release", () => releaseWorkload(cluster, "w-v"));
    expect(over.map(stateName)).toEqual(["RELEASED"]);
    await removeVolume(cluster, "v");
    await expectClean(cluster);
  };

  it("[I2] [I3] [I5] [I6] loses its state directory: a new node epoch, the claim keeps its mount and its epoch", async () => {
    const before = await inUse();
    const mounts = await mountPoints();
    const nodeEpoch = await nodeEpochNow();
    await node.agent().kill("SIGKILL");
    await rm(node.stateDir, { recursive: true });
    await Promise.all([node.startAgent(), admitWaiting(cluster, "node-a")]);
    expect(await nodeEpochNow()).toBe(nodeEpoch + 1n);
    const publishesOf = (calls: readonly string[]) => calls.filter((method) => method === "NodePublishVolume").length;
    await until("the permit to be taken by the new journal", async () => {
      const taken = (await readFile(path.join(node.stateDir, "journal"), "utf8")).includes('"type":"published"');
      return taken || undefined;
    });
    const after = await activeAgain();
    expect(after).toMatchObject({ uid: before.uid, epoch: before.epoch, hostPath: before.hostPath });
    expect(await mountPoints()).toEqual(mounts);
    expect(await data(after)).toBe("kept");
    expect(publishesOf(await mutatingCalls(cluster))).toBe(2);
    await end();
  });

  it("[I2] [I5] [I6] loses its state directory, and the claim is released at once: undone, nothing leaks", async () => {
    await inUse();
    await node.agent().kill("SIGKILL");
    await rm(node.stateDir, { recursive: true });
    const releasing = persistently("the release", () => releaseWorkload(cluster, "w-v"));
    await Promise.all([node.startAgent(), admitWaiting(cluster, "node-a")]);
    expect((await releasing).map(stateName)).toEqual(["RELEASED"]);
    await removeVolume(cluster, "v");
    await expectClean(cluster);
  });

  it.each([
    ["and a person says so", "none", "none"],
    ["and the host proves it", "host-1", "host-1"],
    ["and what proves it is another host's, so that a person says so", "host-1", "host-2"],
  ])(
    "[I3] [I6] its host boots: the same permit stages and publishes again under the same epoch, %s",
    async (_how, first, then) => {
      await node.agent().kill("SIGTERM");
      await node.startAgent({ HOLDFAST_HOST_IDENTITY: first });
      const before = await inUse();
      const nodeEpoch = await nodeEpochNow();
      const lost = await powerCut();
      const app = await nextBoot(node, { controllers: cluster.agentAddress, identity: then });
      onTestFinished(() => app.stop());
      const proved = first === then && first !== "none";
      await Promise.all([app.start(AbortSignal.timeout(60_000)), ...(proved ? [] : [admitWaiting(cluster, "node-a")])]);
      expect((await cluster.nodes.getNode({ name: node.name })).node).toMatchObject({
        bootId: app.bootId,
        nodeEpoch: nodeEpoch + 1n,
        pending: undefined,
      });
      expect(app.log.lines.find(({ message }) => message === "the journal was read")?.fields).toMatchObject({
        held: 1,
        missing: 1,
        rebooted: true,
        orphans: [],
      });
      await until(
        "the mounts to be there again",
        async () => (await mountPoints()).length === lost.length || undefined,
      );
      const after = await activeAgain();
      expect(await mountPoints()).toEqual(lost);
      expect(after).toMatchObject({ uid: before.uid, epoch: before.epoch, hostPath: before.hostPath });
      expect(await data(after)).toBe("kept");
      expect(await mutatingCalls(cluster)).toEqual([
        "CreateVolume",
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
      ]);
      await end();
    },
  );

  it("[I2] [I3] [I6] its host is made anew from an image, and proves that it is a later boot: by nobody's word what stands is mounted again", async () => {
    await node.agent().kill("SIGTERM");
    await node.startAgent({ HOLDFAST_HOST_IDENTITY: "host-1" });
    const before = await inUse();
    const nodeEpoch = await nodeEpochNow();
    const lost = await powerCut();
    const app = await nextBoot(node, { controllers: cluster.agentAddress, identity: "host-1", imaged: true });
    onTestFinished(() => app.stop());
    await app.start(AbortSignal.timeout(60_000));
    const { node: now } = await cluster.nodes.getNode({ name: node.name });
    expect(now).toMatchObject({ bootId: app.bootId, nodeEpoch: nodeEpoch + 1n, pending: undefined });
    await until("the mounts to be there again", async () => (await mountPoints()).length === lost.length || undefined);
    const after = await activeAgain();
    expect(after).toMatchObject({ uid: before.uid, epoch: before.epoch, hostPath: before.hostPath });
    expect(await data(after)).toBe("kept");
    await end();
  });
});
