/**
 * Security (d): no single order makes an agent refuse every later one for good. Over real processes, with a restart in between; the
 * orders come from a second address that the agent was told to be a controller's.
 */
import { type FakeController, serveFakeController } from "@holdfast/node-agent/testing/fake-controller";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { claimVolume, expectClean, makeVolume, releaseWorkload, removeVolume, stateName } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const highest = 2n ** 53n - 1n;
const step = 2n ** 20n;

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("security d: numbers that never fall rise by bounded steps", () => {
  let cluster: Cluster;
  let posing: FakeController;
  const agent = () => posing.orders({ role: "controller", name: "posing" });

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
    posing = await serveFakeController();
    // What it is told is its own to repeat to the true controller.
    posing.setForgetting(false);
    posing.answerNodeEpoch(1n);
    const node = cluster.node("node-a");
    await node.agent().kill("SIGTERM");
    await node.startAgent({ HOLDFAST_CONTROLLERS: `${cluster.agentAddress},${posing.address}` });
    await until("the agent to register at both", () => posing.course.some((word) => word.endsWith("registered")));
  });
  afterAll(async () => {
    await cluster?.stop();
    await posing?.stop();
  });

  it("a promise, and a permit, that would lock the agent out are refused; claims go on, also after a restart", async () => {
    await makeVolume(cluster, "data");
    await makeVolume(cluster, "other");
    const reasonOf = (call: Promise<unknown>): Promise<unknown> =>
      call.then(
        (answer) => answer,
        (error: { reason?: string }) => error.reason,
      );

    expect(await reasonOf(agent().raiseFloor({ promisedGen: highest }))).toBe("EPOCH_LEAP");
    expect(await reasonOf(agent().raiseFloor({ promisedGen: step + 2n }))).toBe("EPOCH_LEAP");
    expect(await reasonOf(agent().raiseFloor({ promisedGen: 2n ** 63n }))).toBe("INVALID_ARGUMENT");

    const before = await claimVolume(cluster, "other");
    expect(stateName(before)).toBe("ACTIVE");
    await releaseWorkload(cluster, "w-other");
    const { volume } = await cluster.volumes.getVolume({ namespace: "test", id: "other" });
    const subject = {
      namespace: "test",
      volume: "other",
      volumeUid: volume?.uid ?? "",
      externalId: volume?.externalId ?? "",
      plugin: volume?.plugin ?? "",
      node: "node-a",
      nodeEpoch: 1n,
    };
    const epochs = [
      { gen: 1n, ctr: highest },
      { gen: highest, ctr: 1n },
    ];
    for (const epoch of epochs) {
      const permit = { ...subject, claimUid: `posed-${epoch.gen}`, workload: "posed", alias: "data", epoch };
      const modes = {
        accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
        attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      };
      const { refused } = await agent().publish({ permit: { ...permit, ...modes, oldestLiveEpoch: epoch } });
      expect(refused).toMatchObject({ reason: 7 });
    }

    await cluster.node("node-a").agent().kill("SIGKILL");
    await cluster.node("node-a").startAgent();
    for (const id of ["data", "other"]) {
      const claim = await claimVolume(cluster, id);
      expect(stateName(claim), id).toBe("ACTIVE");
      await releaseWorkload(cluster, `w-${id}`);
      await removeVolume(cluster, id);
    }
    await expectClean(cluster);
  });
});
