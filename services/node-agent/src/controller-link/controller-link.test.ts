import { RegisterResponse } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { describe, expect, test } from "vitest";
import { type FakeController, startFakeController } from "../testing/fake-controller.ts";
import { registered, startLink } from "../testing/link-rig.ts";
import { anyCaller, type ModelAgent, permitOrder, releaseOrder, volumeRef } from "../testing/model-agent.ts";
import type { ControllerStream, OpenControllerStream } from "./controller-stream.ts";

/** Some looks at what has to be told: for what must not happen. */
const looks = () => new Promise((resolve) => setTimeout(resolve, 150));
const nodeEpochOnDisk = (agent: ModelAgent) =>
  [...JSON.stringify(agent.disk().records).matchAll(/"nodeEpoch":(\d+),"clusterUid":"cluster/g)].at(-1)?.[1];

test("[I4] it registers, and the node epoch is journalled before it counts as registered", async () => {
  const controller = await startFakeController();
  const { agent, link } = await startLink([controller.address]);
  await registered(link);
  expect(agent.ledger().agent()).toMatchObject({ nodeEpoch: controller.nodeEpoch(), clusterUid: "cluster" });
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
    await looks();
    expect(told(controller)).toHaveLength(1);
  }
  since = 2_000;
  for (const controller of controllers) await expect.poll(() => told(controller)).toHaveLength(2);
});

test("a plugin that changes is told at once, as a change, and its end as an end", async () => {
  const controller = await startFakeController();
  const { link, fingerprints } = await startLink([controller.address]);
  await registered(link);
  await expect.poll(() => controller.reports.length).toBe(1);
  fingerprints.tell("one");
  await expect.poll(() => controller.fingerprints().map(({ plugin }) => plugin)).toEqual(["one"]);
  fingerprints.tell("two");
  await expect.poll(() => controller.fingerprints().length).toBe(2);
  fingerprints.tell("one", true);
  await expect.poll(() => controller.fingerprints().map(({ plugin }) => plugin)).toEqual(["two"]);
  // The first says how the agent itself is.
  expect(
    controller.reports.map(({ baseRevision, revision, changed }) => [baseRevision, revision, changed.length]),
  ).toEqual([
    [0n, 0n, 0],
    [0n, 1n, 1],
    [1n, 2n, 1],
    [2n, 3n, 0],
  ]);
});

test("Session-1: nothing is told where nothing changed; numbers that change with each claim are told later", async () => {
  const controller = await startFakeController();
  let [publications, blocked] = [0, 0];
  const health = () => ({ notAccepting: undefined, publications, blocked, unacknowledged: 0 });
  const { link } = await startLink([controller.address], { health });
  await registered(link);
  await expect.poll(() => controller.reports.length).toBe(1);
  await looks();
  publications = 1;
  await looks();
  expect(controller.reports).toHaveLength(1);
  blocked = 1;
  await expect.poll(() => controller.reports.at(-1)?.health).toMatchObject({ publications: 1, blocked: 1 });
  expect(controller.reports).toHaveLength(2);
});

test("a controller that does not know it any more gets a whole registration", async () => {
  const controller = await startFakeController();
  const { link, fingerprints } = await startLink([controller.address]);
  await registered(link);
  fingerprints.tell("one");
  await expect.poll(() => controller.fingerprints().length).toBe(1);
  controller.forget();
  fingerprints.tell("two");
  await expect.poll(() => controller.headers.length).toBe(2);
  expect(controller.fingerprints().map(({ plugin }) => plugin)).toEqual(["one", "two"]);
});

test("every controller is told; one that is away delays no other, and is found when it is back", async () => {
  const here = await startFakeController();
  const gone = await startFakeController();
  await gone.stop();
  const { link } = await startLink([gone.address, here.address]);
  await registered(link);
  await expect.poll(() => here.reports.length).toBeGreaterThan(0);
  const back = await startFakeController({ listen: gone.address });
  await expect.poll(() => back.headers.length, { timeout: 5_000 }).toBe(1);
  await expect.poll(() => back.reports.length).toBeGreaterThan(0);
});

test("a controller that restarts on the same address is registered with again", async () => {
  const first = await startFakeController();
  const { link } = await startLink([first.address]);
  await registered(link);
  await first.stop();
  const second = await startFakeController({ listen: first.address });
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
  const { agent, link, log, fingerprints } = await startLink([controller.address]);
  await registered(link);
  const known = agent.ledger().agent().nodeEpoch;
  controller.answerNodeEpoch(2n ** 53n - 1n);
  controller.forget();
  fingerprints.tell("one");
  await expect
    .poll(() => log.lines.filter(({ level, fields }) => level === "warn" && fields?.["reason"] === "EPOCH_LEAP").length)
    .toBeGreaterThan(0);
  expect(agent.ledger().agent().nodeEpoch).toBe(known);
  controller.answerNodeEpoch(undefined);
  await looks();
  expect(agent.ledger().agent().nodeEpoch).toBe(known);
});

test("fenced: permits are refused for as long as the controllers say so", async () => {
  const controller = await startFakeController();
  const { link } = await startLink([controller.address]);
  await registered(link);
  expect(link.quarantined()).toBe(false);
  controller.setState(NodeState.NODE_STATE_QUARANTINED);
  // An order that was refused, or another registration, brings it to light.
  link.doubt();
  await expect.poll(() => link.quarantined()).toBe(true);
  controller.setState(NodeState.NODE_STATE_READY);
  await expect.poll(() => link.quarantined()).toBe(false);
});

test("a release that nobody heard of is told until it is forgotten", async () => {
  const controller = await startFakeController();
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
  await looks();
  const told = controller.acknowledged.length;
  await looks();
  expect(controller.acknowledged.length).toBe(told);
});

test("[I7] a volume that hangs holds up no report, although a release of it is to be forgotten", async () => {
  const controller = await startFakeController();
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
  await looks();
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
  /** Controllers that answer a registration at once and nothing else. */
  async function startWith(
    answers: Readonly<Record<string, { nodeEpoch: number; state: NodeState; clusterUid?: string }>>,
  ) {
    const open: OpenControllerStream = ({ target }) => {
      const ended = Promise.withResolvers<unknown>();
      const silent = () => new Promise<never>(() => undefined);
      const client = {
        register: async () => {
          const { nodeEpoch = 0, state = NodeState.NODE_STATE_READY, clusterUid = "cluster" } = answers[target] ?? {};
          return RegisterResponse.fromPartial({ nodeEpoch: BigInt(nodeEpoch), clusterUid, state });
        },
        report: silent,
        acknowledge: silent,
      } as Partial<ControllerStream["client"]> as ControllerStream["client"];
      const end = async (why: string) => {
        left.push(target);
        ended.resolve(why);
      };
      return { client, idle: () => true, ended: ended.promise, end };
    };
    const left: string[] = [];
    const { agent, link } = await startLink(Object.keys(answers), { open });
    await registered(link);
    for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
    return { agent, link, left };
  }

  test("[K5] of two installations the first that answered has the node, and no stream to the other one stays", async () => {
    const ready = { nodeEpoch: 1, state: NodeState.NODE_STATE_READY };
    const { agent, link, left } = await startWith({
      "127.0.0.1:1": ready,
      "127.0.0.1:2": { ...ready, clusterUid: "cluster-2" },
    });
    expect(agent.ledger().agent().clusterUid).toBe("cluster");
    expect(link.controllers().map(({ address }) => address)).toEqual(["127.0.0.1:1"]);
    expect(left).toEqual(["127.0.0.1:2"]);
  });

  test("[I9] the node epoch does not go back to the older one, whatever the order of the answers", async () => {
    const ready = { state: NodeState.NODE_STATE_READY };
    const { agent } = await startWith({
      "127.0.0.1:1": { nodeEpoch: 7, ...ready },
      "127.0.0.1:2": { nodeEpoch: 6, ...ready },
    });
    expect(agent.ledger().agent().nodeEpoch).toBe(7);
    expect(nodeEpochOnDisk(agent)).toBe("7");
  });

  test("[I9] who answers with an older node epoch lifts no quarantine", async () => {
    const { link } = await startWith({
      "127.0.0.1:1": { nodeEpoch: 7, state: NodeState.NODE_STATE_QUARANTINED },
      "127.0.0.1:2": { nodeEpoch: 6, state: NodeState.NODE_STATE_READY },
    });
    expect(link.quarantined()).toBe(true);
  });
});
