import { randomUUID } from "node:crypto";
import { systemClock } from "@holdfast/shared/async/clock";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { RegisterResponse } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { PluginFingerprint } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, onTestFinished, test } from "vitest";
import { type ControllerLink, createControllerLink } from "./controller-link.ts";
import { dialController } from "./controller-link-client.ts";
import type { AgentSelf, Fingerprints } from "./controller-link-messages.ts";
import { noFailpoints } from "./failpoints.ts";
import { type FakeController, startFakeController } from "./testing/fake-controller.ts";
import {
  anyCaller,
  type ModelAgent,
  permitOrder,
  releaseOrder,
  startModelAgent,
  volumeRef,
} from "./testing/model-agent.ts";

function fakeFingerprints() {
  const changes = createNotifier();
  const log: { revision: number; plugin: PluginFingerprint; gone: boolean }[] = [];
  const board: Fingerprints = {
    revision: changes.version,
    all: () => log.filter(({ gone }) => !gone).map(({ plugin }) => plugin),
    changes: (since) => {
      const later = log.filter(({ revision }) => revision > since);
      return {
        changed: later.filter(({ gone }) => !gone).map(({ plugin }) => plugin),
        removed: later
          .filter(({ gone }) => gone)
          .map(({ plugin }) => ({ plugin: plugin.plugin, instanceId: plugin.instanceId })),
      };
    },
    wait: (since, signal) => changes.wait(since, signal),
  };
  return {
    board,
    tell(name: string, gone = false) {
      const plugin = PluginFingerprint.fromPartial({ plugin: name, instanceId: "i" });
      log.push({ revision: changes.version() + 1, plugin, gone });
      changes.notify();
    },
  };
}

async function startLink(
  controllers: readonly string[],
  changes: { readonly heartbeatMs?: number; readonly lost?: AgentSelf["lost"] } = {},
) {
  const agent = await startModelAgent();
  const life = new AbortController();
  const log = createMemoryLogger();
  const fingerprints = fakeFingerprints();
  const dialer = dialController({ log, node: "node-a" });
  const self: AgentSelf = {
    node: "node-a",
    machineId: "m",
    bootId: "b",
    lockId: "8:1",
    instance: randomUUID(),
    address: () => "127.0.0.1:1",
    version: "0",
    rootDir: "/hf",
    scope: "own-namespace",
    fingerprints: fingerprints.board,
    health: () => ({ notAccepting: undefined, publications: 0, blocked: 0, unacknowledged: 0 }),
    lost: () => changes.lost?.() ?? [],
  };
  const link: ControllerLink = createControllerLink({
    controllers,
    self,
    ledger: agent.ledger(),
    dial: dialer.dial,
    heartbeatMs: changes.heartbeatMs ?? 50,
    reconnectMaxMs: 100,
    clock: systemClock,
    random: Math.random,
    log,
    failpoint: noFailpoints,
    forget: (ref, claimUid) => agent.volumes().forget(ref, claimUid),
    signal: life.signal,
  });
  onTestFinished(async () => {
    life.abort(new DOMException("the test is over", "AbortError"));
    await link.stop();
    dialer.close();
  });
  return { agent, link, log, fingerprints };
}

const registered = (link: ControllerLink) => link.whenRegistered(AbortSignal.timeout(5_000));
const beats = (controller: FakeController, more: number) =>
  expect.poll(() => controller.heartbeats.length).toBeGreaterThanOrEqual(controller.heartbeats.length + more);
const nodeEpochOnDisk = (agent: ModelAgent) =>
  JSON.stringify(agent.disk().records).match(/"nodeEpoch":(\d+),"clusterUid":"cluster-1"/)?.[1];

test("[I4] it registers, and the node epoch is journalled before it counts as registered", async () => {
  const controller = await startFakeController();
  const { agent, link } = await startLink([controller.address]);
  await registered(link);
  expect(agent.ledger().agent()).toMatchObject({ nodeEpoch: controller.nodeEpoch(), clusterUid: "cluster-1" });
  expect(nodeEpochOnDisk(agent)).toBe(String(controller.nodeEpoch()));
  expect(controller.headers[0]).toMatchObject({
    name: "node-a",
    journalUid: agent.ledger().uid,
    fingerprintRevision: 0n,
  });
});

test("a publication that is lost is told once to each controller, and again when it is lost again", async () => {
  const controllers = [await startFakeController(), await startFakeController()];
  const epoch = { gen: 1, ctr: 5 };
  let since = 1_000;
  const lost = () => [{ ref: volumeRef, claimUid: "a", epoch, since, reason: "MOUNT_DEAD" }];
  const { link } = await startLink(
    controllers.map(({ address }) => address),
    { lost },
  );
  await registered(link);
  const told = (controller: FakeController) =>
    controller.acknowledged
      .flatMap((request) => request.lost)
      .map((it) => [it.claimUid, it.reason, it.since?.getTime()]);
  for (const controller of controllers) {
    await expect.poll(() => told(controller)).toEqual([["a", "MOUNT_DEAD", 1_000]]);
    await beats(controller, 3);
    expect(told(controller)).toHaveLength(1);
  }
  since = 2_000;
  for (const controller of controllers) await expect.poll(() => told(controller)).toHaveLength(2);
});

test("a plugin that changes is told at once, as a change, and its end as an end", async () => {
  const controller = await startFakeController({ heartbeatMs: 60_000 });
  const { link, fingerprints } = await startLink([controller.address], { heartbeatMs: 60_000 });
  await registered(link);
  fingerprints.tell("one");
  await expect.poll(() => controller.fingerprints().map(({ plugin }) => plugin)).toEqual(["one"]);
  fingerprints.tell("two");
  await expect.poll(() => controller.fingerprints().length).toBe(2);
  fingerprints.tell("one", true);
  await expect.poll(() => controller.fingerprints().map(({ plugin }) => plugin)).toEqual(["two"]);
  expect(
    controller.heartbeats.map(({ baseRevision, revision, changed }) => [baseRevision, revision, changed.length]),
  ).toEqual([
    [0n, 1n, 1],
    [1n, 2n, 1],
    [2n, 3n, 0],
  ]);
});

test("a controller that does not know it any more gets a whole registration", async () => {
  const controller = await startFakeController({ heartbeatMs: 100 });
  const { link, fingerprints } = await startLink([controller.address]);
  await registered(link);
  fingerprints.tell("one");
  await expect.poll(() => controller.fingerprints().length).toBe(1);
  controller.forget();
  await expect.poll(() => controller.headers.length).toBe(2);
  expect(controller.fingerprints().map(({ plugin }) => plugin)).toEqual(["one"]);
});

test("every controller is told; one that is away delays no other, and is found when it is back", async () => {
  const here = await startFakeController({ heartbeatMs: 100 });
  const gone = await startFakeController({ heartbeatMs: 100 });
  await gone.stop();
  const { link } = await startLink([gone.address, here.address]);
  await registered(link);
  await beats(here, 2);
  const back = await startFakeController({ heartbeatMs: 100, listen: gone.address });
  await expect.poll(() => back.headers.length, { timeout: 5_000 }).toBe(1);
  await expect.poll(() => back.heartbeats.length).toBeGreaterThan(0);
});

test("a controller that restarts on the same address is registered with again", async () => {
  const first = await startFakeController({ heartbeatMs: 100 });
  const { link } = await startLink([first.address]);
  await registered(link);
  await first.stop();
  const second = await startFakeController({ heartbeatMs: 100, listen: first.address });
  await expect.poll(() => second.headers.length, { timeout: 5_000 }).toBe(1);
});

test("an older node epoch than the journal's is not taken, and is told loudly", async () => {
  const controller = await startFakeController();
  const { agent, link, log } = await startLink([controller.address]);
  await agent.ledger().commitAgent({ type: "node-epoch", nodeEpoch: 40, clusterUid: "cluster-1" });
  await registered(link);
  expect(agent.ledger().agent().nodeEpoch).toBe(40);
  expect(log.lines.filter(({ level }) => level === "error")).toMatchObject([{ fields: { node_epoch: 40 } }]);
});

test("a node epoch that no controller gives is not journalled, and does not count as a registration", async () => {
  const controller = await startFakeController();
  const { agent, link, log } = await startLink([controller.address]);
  await registered(link);
  const known = agent.ledger().agent().nodeEpoch;
  controller.answerNodeEpoch(2n ** 53n - 1n);
  controller.forget();
  await expect
    .poll(() => log.lines.filter(({ level, fields }) => level === "warn" && fields?.["reason"] === "EPOCH_LEAP").length)
    .toBeGreaterThan(0);
  expect(agent.ledger().agent().nodeEpoch).toBe(known);
  controller.answerNodeEpoch(undefined);
  await beats(controller, 1);
  expect(agent.ledger().agent().nodeEpoch).toBe(known);
});

test("fenced: permits are refused for as long as the controllers say so", async () => {
  const controller = await startFakeController({ heartbeatMs: 100 });
  const { link } = await startLink([controller.address]);
  await registered(link);
  expect(link.quarantined()).toBe(false);
  controller.setState(NodeState.NODE_STATE_QUARANTINED);
  await expect.poll(() => link.quarantined()).toBe(true);
  controller.setState(NodeState.NODE_STATE_READY);
  await expect.poll(() => link.quarantined()).toBe(false);
});

test("a release that nobody heard of is told until it is forgotten", async () => {
  const controller = await startFakeController({ heartbeatMs: 100 });
  controller.setForgetting(false);
  const { agent, link } = await startLink([controller.address]);
  await registered(link);
  const caller = new AbortController();
  await agent.volumes().publish(permitOrder("a", 5, { nodeEpoch: controller.nodeEpoch() }), anyCaller);
  const release = agent.volumes().release(releaseOrder("a", 5, controller.nodeEpoch()), caller.signal);
  await Promise.resolve();
  caller.abort(new Error("gone"));
  await release;
  await expect.poll(() => controller.acknowledged.length).toBeGreaterThan(1);
  expect(controller.acknowledged[0]?.released).toMatchObject([
    { volumeUid: volumeRef.volumeUid, claimUid: "a", epoch: { gen: 1n, ctr: 5n } },
  ]);
  controller.setForgetting(true);
  await expect
    .poll(() =>
      agent
        .ledger()
        .volume(volumeRef.volumeUid)
        ?.dead.map(({ late }) => late),
    )
    .toEqual([false]);
  await beats(controller, 2);
  const told = controller.acknowledged.length;
  await beats(controller, 2);
  expect(controller.acknowledged.length).toBe(told);
});

test("[I7] a volume that hangs holds up no heartbeat, although a release of it is to be forgotten", async () => {
  const controller = await startFakeController({ heartbeatMs: 100 });
  controller.setForgetting(false);
  const { agent, link } = await startLink([controller.address]);
  await registered(link);
  const nodeEpoch = controller.nodeEpoch();
  const caller = new AbortController();
  await agent.volumes().publish(permitOrder("a", 5, { nodeEpoch }), anyCaller);
  const release = agent.volumes().release(releaseOrder("a", 5, nodeEpoch), caller.signal);
  await Promise.resolve();
  caller.abort(new Error("gone"));
  await release;
  let go: () => void = () => undefined;
  agent.host.dirs.makeStaging = () =>
    new Promise((resolve) => {
      go = resolve;
    });
  const hanging = agent.volumes().publish(permitOrder("b", 6, { nodeEpoch }), anyCaller);
  const told = controller.acknowledged.length;
  controller.setForgetting(true);
  await expect.poll(() => controller.acknowledged.length).toBeGreaterThan(told);
  await beats(controller, 3);
  expect(
    agent
      .ledger()
      .volume(volumeRef.volumeUid)
      ?.dead.map(({ late }) => late),
  ).toEqual([true]);
  go();
  expect(await hanging).toMatchObject({ kind: "published" });
  await expect
    .poll(() =>
      agent
        .ledger()
        .volume(volumeRef.volumeUid)
        ?.dead.filter(({ late }) => late),
    )
    .toEqual([]);
});

describe("answers of two controllers at once", () => {
  /** Controllers that answer a registration at once and a heartbeat never. */
  async function startWith(answers: Readonly<Record<string, { nodeEpoch: number; state: NodeState }>>) {
    const agent = await startModelAgent();
    const life = new AbortController();
    const link = createControllerLink({
      controllers: Object.keys(answers),
      self: {
        node: "node-a",
        machineId: "m",
        bootId: "b",
        lockId: "8:1",
        instance: "i",
        address: () => "127.0.0.1:1",
        version: "0",
        rootDir: "/hf",
        scope: "own-namespace",
        fingerprints: fakeFingerprints().board,
        health: () => ({ notAccepting: undefined, publications: 0, blocked: 0, unacknowledged: 0 }),
        lost: () => [],
      },
      ledger: agent.ledger(),
      dial: (address) => ({
        register: async () => {
          const { nodeEpoch = 0, state = NodeState.NODE_STATE_READY } = answers[address] ?? {};
          return RegisterResponse.fromPartial({ nodeEpoch: BigInt(nodeEpoch), clusterUid: "cluster-1", state });
        },
        heartbeat: () => new Promise(() => undefined),
        acknowledge: () => new Promise(() => undefined),
      }),
      heartbeatMs: 60_000,
      reconnectMaxMs: 100,
      clock: systemClock,
      random: Math.random,
      log: createMemoryLogger(),
      failpoint: noFailpoints,
      forget: async () => undefined,
      signal: life.signal,
    });
    onTestFinished(async () => {
      life.abort(new DOMException("the test is over", "AbortError"));
      await link.stop();
    });
    await registered(link);
    for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
    return { agent, link };
  }

  test("[I9] the node epoch does not go back to the older one, whatever the order of the answers", async () => {
    const ready = { state: NodeState.NODE_STATE_READY };
    const { agent } = await startWith({ "new:1": { nodeEpoch: 7, ...ready }, "old:1": { nodeEpoch: 6, ...ready } });
    expect(agent.ledger().agent().nodeEpoch).toBe(7);
    expect(nodeEpochOnDisk(agent)).toBe("7");
  });

  test("[I9] who answers with an older node epoch lifts no quarantine", async () => {
    const { link } = await startWith({
      "new:1": { nodeEpoch: 7, state: NodeState.NODE_STATE_QUARANTINED },
      "old:1": { nodeEpoch: 6, state: NodeState.NODE_STATE_READY },
    });
    expect(link.quarantined()).toBe(true);
  });
});
