import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { DrainMode, DrainStage, NodeState, type WatchDrainResponse } from "@holdfast/shared/gen/holdfast/v1/node";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const waiting = { seconds: 45n, nanos: 0 };

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("taking a node out of use, over real processes", { timeout: 180_000 }, () => {
  let cluster: Cluster;

  beforeEach(async () => {
    // A node that is gone for good may be forgotten once no controller has had its stream for the grace.
    const controllerEnv = { HOLDFAST_LINK_GRACE: "1s" };
    cluster = await startCluster({ nodes: ["node-a", "node-b"], realMounts: true, controllerEnv });
  }, 90_000);
  afterEach(() => cluster.stop());

  const active = async (id: string, node = "node-a"): Promise<void> => {
    await makeVolume(cluster, id);
    // A plugin that is told late on a busy machine is no reason to fail: the same request again.
    const claim = await persistently(`the claim of ${id}`, () => claimVolume(cluster, id, { node }));
    expect(stateName(claim)).toBe("ACTIVE");
  };

  const nodeNow = async (name: string) => (await cluster.nodes.getNode({ name })).node;
  const drain = (mode: DrainMode = DrainMode.DRAIN_MODE_UNSPECIFIED) =>
    persistently("the drain", () => cluster.nodes.drainNode({ name: "node-a", reason: "new kernel", mode }));
  const stageIs = (stage: DrainStage) => until(`stage ${stage}`, async () => (await drain()).stage === stage, 60_000);

  it("[X40] [X51] a drained node gets nothing more, keeps what it has, and its workloads move to the other", async () => {
    for (const id of ["one", "two"]) await active(id);
    const { stage, remaining } = await drain();
    expect(stage).toBe(DrainStage.DRAIN_STAGE_CLAIMS);
    expect(remaining.map(({ volume, state }) => [volume, state])).toEqual([
      ["one", "ACTIVE"],
      ["two", "ACTIVE"],
    ]);
    await makeVolume(cluster, "new");
    await expect(claimVolume(cluster, "new")).rejects.toMatchObject({ reason: "NODE_NOT_READY" });

    // The drain is in the store, not in the process.
    await cluster.controller().kill("SIGKILL");
    await cluster.startController();
    await until("node-a to be seen", async () => (await nodeNow("node-a").catch(() => undefined))?.drained);
    const refused = await until("the same answer", () =>
      claimVolume(cluster, "new").then(
        () => ({ reason: "granted" }),
        (error: { reason?: string; metadata?: { state?: string } }) =>
          error.metadata?.state === "DRAINED" ? error : undefined,
      ),
    );
    expect(refused.reason).toBe("NODE_NOT_READY");

    const progress: WatchDrainResponse[] = [];
    const drained = (async () => {
      for await (const message of cluster.nodes.watchDrain({ name: "node-a" })) progress.push(message);
    })();
    for (const id of ["one", "two"]) {
      const moved = persistently(`the claim of ${id} on node-b`, () =>
        cluster.claims.createClaims({
          namespace,
          workload: `moved-${id}`,
          node: "node-b",
          claims: [{ volume: id }],
          queue: { enabled: true },
          waitFor: waiting,
        }),
      );
      await persistently(`the release of ${id}`, () => releaseWorkload(cluster, `w-${id}`));
      expect((await moved).claims.map(stateName)).toEqual(["ACTIVE"]);
    }
    await drained;
    expect(progress[0]?.remainingCount).toBe(2n);
    expect(progress.at(-1)).toMatchObject({ stage: DrainStage.DRAIN_STAGE_PLUGINS, remainingCount: 0n });

    // Plugins last: with the node's own gone nothing is left there.
    await cluster.node("node-a").plugin().stop();
    await stageIs(DrainStage.DRAIN_STAGE_DONE);
    await cluster.node("node-a").startPlugin();
    await cluster.nodes.undrainNode({ name: "node-a", reason: "" });
    const back = await persistently("a claim on node-a again", () => claimVolume(cluster, "new"));
    expect(stateName(back)).toBe("ACTIVE");

    for (const workload of ["moved-one", "moved-two", "w-new"]) await releaseWorkload(cluster, workload);
    for (const id of ["one", "two", "new"]) await removeVolume(cluster, id);
    await expectClean(cluster);
  });

  it("[I2] [I7] a node that dies in its drain keeps its claims, says so, and goes on where it was", async () => {
    await active("data");
    const node = cluster.node("node-a");
    await node.agent().kill("SIGKILL");
    const drained = await drain(DrainMode.DRAIN_MODE_RELEASE);
    expect(drained.node?.drain?.mode).toBe(DrainMode.DRAIN_MODE_RELEASE);
    await until(
      "the release to be wanted",
      async () => {
        const { remaining } = await cluster.nodes.drainNode({
          name: "node-a",
          reason: "new kernel",
          mode: DrainMode.DRAIN_MODE_RELEASE,
        });
        return remaining[0]?.state === "RELEASING" && remaining[0].lastError !== undefined;
      },
      60_000,
    );
    await until(
      "node-a to be suspect",
      async () => (await nodeNow("node-a"))?.state === NodeState.NODE_STATE_SUSPECT,
      60_000,
    );
    // Nobody has proved that it is unmounted there.
    const { state } = await cluster.backend.client.snapshot();
    expect(state.attachments.size).toBe(1);
    expect(state.publications.size).toBe(1);
    await expect(cluster.nodes.forgetNode({ name: "node-a", reason: "gone" })).rejects.toMatchObject({
      reason: "NODE_IN_USE",
      metadata: { volume: "data" },
    });

    await node.startAgent();
    await until(
      "the release to be over",
      async () => {
        const answer = await cluster.nodes.drainNode({
          name: "node-a",
          reason: "new kernel",
          mode: DrainMode.DRAIN_MODE_RELEASE,
        });
        return answer.remainingCount === 0n;
      },
      60_000,
    );
    await removeVolume(cluster, "data");
    await expectClean(cluster);

    // Now it may be forgotten: not while it is alive, and then for good.
    await until(
      "node-a to be ready",
      async () => (await nodeNow("node-a"))?.state === NodeState.NODE_STATE_READY,
      60_000,
    );
    await node.agent().kill("SIGKILL");
    const told = await until(
      "its silence",
      async () =>
        await cluster.nodes.forgetNode({ name: "node-a", reason: "gone", dryRun: true }).catch((error) => {
          expect(error).toMatchObject({ reason: "NODE_NOT_SUSPECT" });
          return undefined;
        }),
      60_000,
    );
    expect(told.consequence?.effects[0]).toContain("node-a");
    await cluster.nodes.forgetNode({ name: "node-a", reason: "gone" });
    await cluster.nodes.forgetNode({ name: "node-a", reason: "gone" });
    const { nodes } = await cluster.nodes.listNodes({});
    expect(nodes.map(({ name }) => name)).toEqual(["node-b"]);

    // A host that comes back all the same is a node again, no longer drained.
    await node.startAgent();
    await until(
      "node-a to register",
      async () => (await nodeNow("node-a").catch(() => undefined))?.schedulable === true,
      60_000,
    );
    await active("again");
    await releaseWorkload(cluster, "w-again");
    await removeVolume(cluster, "again");
    await expectClean(cluster);
  });

  it("[X43] what workloads left behind is released by the scheduler's own list, on its node alone", async () => {
    for (const id of ["kept", "left"]) await active(id);
    await active("other", "node-b");
    const { listToken } = await cluster.claims.getListToken({});
    await active("young");
    const request = { listToken, node: "node-a", live: [{ namespace, workload: "w-kept" }] };
    const told = await cluster.claims.reconcileWorkloads({ ...request, dryRun: true });
    expect(told).toMatchObject({ releasedCount: 1n, liveCount: 1n, youngerCount: 1n, released: [{ volume: "left" }] });
    expect((await cluster.claims.reconcileWorkloads(request)).releasedCount).toBe(1n);
    await until("the claim of left to be over", async () => {
      const { claim } = await cluster.claims.getClaim({ namespace, volume: "left", workload: "w-left", alias: "left" });
      return claim?.state === ClaimState.CLAIM_STATE_RELEASED;
    });
    const { claims } = await cluster.claims.listClaims({ filter: { namespace } });
    expect(claims.map((claim) => `${claim.volume} ${stateName(claim)}`).toSorted()).toEqual(
      ["kept", "other", "young"].map((volume) => `${volume} ACTIVE`),
    );
    for (const id of ["kept", "other", "young"]) await releaseWorkload(cluster, `w-${id}`);
    for (const id of ["kept", "left", "other", "young"]) await removeVolume(cluster, id);
    await expectClean(cluster);
  });
});
