/**
 * Weaknesses of another orchestrator's CSI client, each named as in docs/nomad-differences.md, that concern more than one part
 * of this one. The others have their tests beside the part.
 */
import path from "node:path";
import { callPolicy } from "@holdfast/csi/call-policy";
import { useConnectionFixture } from "@holdfast/csi/testing/connection-fixture";
import { type AgentRig, isRoot, pluginName, type RigClaim, startRig } from "@holdfast/node-agent/testing/agent-rig";
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { AccessMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createSimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import { ServerError, Status } from "nice-grpc";
import { describe, expect, onTestFinished, test } from "vitest";
import { mutatingCalls } from "../harness/calls.ts";
import { startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { createWorld } from "../support/controller/world.ts";
import { sample } from "../support/full.ts";

const nodeCalls = (rig: AgentRig) =>
  rig.plugin.backend.record().filter(({ method }) => /^Node(Stage|Unstage|Publish|Unpublish)/.test(method));

describe("W1 the deadline and the repeats that are declared are those that happen", () => {
  const { signal, start, connect } = useConnectionFixture();

  test("W1 every RPC has a deadline, and so has every attempt, for they share it", () => {
    for (const [method, policy] of Object.entries(callPolicy)) {
      expect(policy.deadlineMs, method).toBeGreaterThan(0);
      expect(policy.deadlineMs, method).toBeLessThanOrEqual(120_000);
      expect(policy.attempts, method).toBe(policy.retryCodes.length === 0 ? 1 : 3);
    }
  });

  test("W1 attempts are counted at the plugin: a question three times, a mount once, a hung call once until it ends", async () => {
    const unavailable = async (): Promise<never> => {
      throw new ServerError(Status.UNAVAILABLE, "not now");
    };
    const hanging = Promise.withResolvers<object>();
    const plugin = await start({
      handlers: {
        listVolumes: unavailable,
        controllerPublishVolume: unavailable,
        deleteVolume: ({ volumeId }) => (volumeId === "v" ? hanging.promise : Promise.resolve({})),
      },
    });
    const connection = connect();
    await connection.whenReady(signal());
    const attempts = (method: string): number => plugin.calls.filter((call) => call === method).length;
    const asked = { signal: signal() };
    expect(await connection.call("ListVolumes", { maxEntries: 1 }, asked)).toMatchObject({ outcome: "unknown" });
    expect(attempts("ListVolumes")).toBe(callPolicy.ListVolumes.attempts);
    const capability = { mount: {}, accessMode: { mode: 1 } } as const;
    const attach = { volumeId: "v", nodeId: "n", volumeCapability: capability };
    expect(await connection.call("ControllerPublishVolume", attach, asked)).toMatchObject({ outcome: "unknown" });
    expect(attempts("ControllerPublishVolume")).toBe(1);
    // The caller of a plugin that hangs waits no longer than its deadline, and a call for another volume goes through.
    const hung = await connection.call("DeleteVolume", { volumeId: "v" }, { ...asked, deadlineMs: 60 });
    expect(hung).toMatchObject({ outcome: "unknown", failure: { code: "DEADLINE_EXCEEDED" } });
    expect(await connection.call("DeleteVolume", { volumeId: "other" }, asked)).toMatchObject({ outcome: "done" });
    // The same call again joins the one that is open: the plugin gets no second one beside it.
    const joined = connection.call("DeleteVolume", { volumeId: "v" }, asked);
    hanging.resolve({});
    expect(await joined).toMatchObject({ outcome: "done" });
    expect(attempts("DeleteVolume")).toBe(2);
  });
});

describe.skipIf(!isRoot)("W2 W3 who uses a stage is known from the journal, by claim", () => {
  const sharing = {
    accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_MULTI_WRITER,
    oldestLive: 1,
    changes: { mountFlags: ["noatime"] },
  };
  const one: RigClaim = { uid: "one", ctr: 1, ...sharing };
  const two: RigClaim = { uid: "two", ctr: 2, ...sharing };

  const stepsOf = (rig: AgentRig): readonly (() => Promise<void>)[] => [
    async () => expect((await rig.publishUntilSettled(one)).published?.hostPath).toContain(rig.rootDir),
    async () => expect((await rig.publishUntilSettled(two)).published?.hostPath).toContain(rig.rootDir),
    async () => {
      expect((await rig.releaseUntilSettled(one)).released?.epoch).toEqual({ gen: 1n, ctr: 1n });
      // The other workload still has it: its target and the stage.
      expect(rig.mountsBelowRoot()).toHaveLength(2);
    },
    async () => expect((await rig.releaseUntilSettled(two)).released?.epoch).toEqual({ gen: 1n, ctr: 2n }),
  ];

  /** Each bit: whether the agent is killed, and the plugin replaced, before that step. */
  const everywhere = 0b1110;
  const kills = [...new Set([everywhere, ...Array.from({ length: sample(8, 1) }, (_, at) => at << 1)])];

  test.each(kills)(
    "W2 W3 two workloads, one volume, equal mount options, agent killed and plugin replaced between steps (%i): one stage, unstaged after both",
    { timeout: 60_000 },
    async (killed) => {
      const rig = await startRig();
      await rig.start();
      for (const [at, step] of stepsOf(rig).entries()) {
        if (((killed >> at) & 1) === 1) {
          rig.signal("SIGKILL");
          await rig.exited();
          rig.plugin.kill();
          await rig.plugin.restart();
          await rig.start();
        }
        await step();
      }
      expect(nodeCalls(rig).map(({ method }) => method)).toEqual([
        "NodeStageVolume",
        "NodePublishVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
      ]);
      expect(rig.plugin.backend.violations()).toEqual([]);
      expect(rig.mountsBelowRoot()).toEqual([]);
    },
  );
});

describe.skipIf(!isRoot)("W4 W5 nothing is taken for done that is not", () => {
  test("W4 an unmount that fails, again and again: no detach before it is done and verified", {
    timeout: 90_000,
  }, async () => {
    const cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
    onTestFinished(() => cluster.stop());
    await makeVolume(cluster, "v");
    expect(stateName(await claimVolume(cluster, "v"))).toBe("ACTIVE");
    await cluster.backend.client.setFaults([{ method: "NodeUnpublishVolume", code: "INTERNAL", times: 3 }]);
    const over = await persistently("the release", async () => {
      const claims = await releaseWorkload(cluster, "w-v");
      if (claims.some((one) => stateName(one) !== "RELEASED")) throw new Error("not released yet");
      return claims;
    });
    expect(over).toHaveLength(1);
    expect((await mutatingCalls(cluster)).slice(4)).toEqual([
      "NodeUnpublishVolume",
      "NodeUnpublishVolume",
      "NodeUnpublishVolume",
      "NodeUnpublishVolume",
      "NodeUnstageVolume",
      "ControllerUnpublishVolume",
    ]);
    await removeVolume(cluster, "v");
    await expectClean(cluster);
  });

  test("W5 a release that runs out of time behind a hung mount is told so, and the mount stays owed", {
    timeout: 60_000,
  }, async () => {
    const rig = await startRig();
    await rig.start();
    const claim: RigClaim = { uid: "one", ctr: 1 };
    rig.plugin.backend.addFault({ method: "NodePublishVolume", hangMs: 4_000 });
    const mounting = rig.publishUntilSettled(claim);
    await expect.poll(() => rig.plugin.backend.record().map(({ method }) => method)).toContain("NodePublishVolume");
    const order = { ...subject, nodeEpoch: BigInt(rig.controller.nodeEpoch()), epoch: { gen: 1n, ctr: 1n } };
    await expect(rig.agent.release(order, { deadlineMs: 300 })).rejects.toMatchObject({ kind: "deadline" });
    await mounting.catch(() => undefined);
    // What became of it is told by the next answer, after the whole of the work.
    expect((await rig.releaseUntilSettled(claim)).released?.epoch).toEqual({ gen: 1n, ctr: 1n });
    expect(rig.mountsBelowRoot()).toEqual([]);
    expect(rig.plugin.backend.violations()).toEqual([]);
  });

  const subject = {
    namespace: "ns",
    volume: "vol-1",
    volumeUid: "uid-vol-1",
    externalId: "vol-1",
    plugin: pluginName,
    claimUid: "one",
    node: "node-a",
  };
});

describe.skipIf(!isRoot)("W48 a drain's deadline stops nobody's plugin under him", () => {
  test("W48 plugin and user are told to stop together: the plugin is let go only when nothing of the user is left", {
    timeout: 60_000,
  }, async () => {
    const rig = await startRig();
    const local = `unix://${path.join(rig.dir, "local.sock")}`;
    await rig.start({ HOLDFAST_LOCAL_LISTEN: local });
    const channel = createGrpcChannel(local);
    onTestFinished(() => channel.close());
    const identity = { role: "local", name: "runner" } as const;
    const runner = createGrpcClient(PluginHostServiceDefinition, channel, { log: createMemoryLogger(), identity });
    // The plugin of the rig is found in its directory; this one is hosted, and newer than that.
    const { socket } = await runner.preparePlugin({
      plugin: pluginName,
      allocation: "drained",
      role: PluginRole.PLUGIN_ROLE_NODE,
      hostFilesystem: true,
    });
    const hosted = await createSimPlugin({
      role: "node",
      node: "node-a",
      socket,
      instance: "hosted",
      backend: rig.plugin.backend,
      dataDir: path.join(rig.dir, "data"),
      realMounts: true,
    });
    onTestFinished(() => hosted.close());
    const known = async (): Promise<boolean> =>
      (await runner.listInstances({ plugin: pluginName })).instances.some(
        ({ allocation, current }) => allocation === "drained" && current,
      );
    await expect.poll(known, { timeout: 10_000 }).toBe(true);
    rig.plugin.kill();
    const claim: RigClaim = { uid: "user", ctr: 1 };
    await rig.publishUntilSettled(claim);
    await expect(runner.stopPlugin({ allocation: "drained" })).rejects.toMatchObject({ reason: "PLUGIN_IN_USE" });
    expect((await rig.releaseUntilSettled(claim)).released?.epoch).toEqual({ gen: 1n, ctr: 1n });
    expect(await runner.stopPlugin({ allocation: "drained" })).toMatchObject({ stopped: true });
    expect(nodeCalls(rig).map(({ method, instance }) => `${method} ${instance}`)).toEqual([
      "NodeStageVolume hosted",
      "NodePublishVolume hosted",
      "NodeUnpublishVolume hosted",
      "NodeUnstageVolume hosted",
    ]);
    expect(rig.mountsBelowRoot()).toEqual([]);
  });
});

describe("W12 a write to one volume wakes that volume", () => {
  /** What one life of a claim costs the store beside so many volumes with claims of their own. */
  const costBeside = async (others: number) => {
    const world = await createWorld();
    onTestFinished(() => world.close());
    for (let at = 0; at < others; at += 1) {
      await world.makeVolume(`other-${at}`);
      await world.claim(`w-${at}`, "n1", [`other-${at}`]);
    }
    await world.idle();
    await world.makeVolume("data");
    await world.idle();
    const before = { commits: world.store.commits(), reads: world.store.reads(), calls: world.backend.calls.length };
    await world.claim("web", "n1", ["data"]);
    // Nobody else is at work, however many there are.
    expect(world.reconciler.size()).toBe(1);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    await world.release("web");
    await world.idle();
    return {
      commits: world.store.commits() - before.commits,
      reads: world.store.reads() - before.reads,
      calls: world.backend.calls.length - before.calls,
    };
  };

  test("W12 the life of a claim costs as much beside a hundred volumes as beside none", async () => {
    const alone = await costBeside(0);
    expect(await costBeside(100)).toEqual(alone);
    // Each call to the plugin reads its record once more, right before it leaves.
    expect(alone).toEqual({ commits: 6, reads: 2, calls: 2 });
  });
});
