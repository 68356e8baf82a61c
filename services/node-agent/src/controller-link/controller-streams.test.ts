/** The link over real connections: what is cut, silent, replaced or half-open on the way between agent and controller. */
import { randomUUID } from "node:crypto";
import { createServer } from "node:net";
import { systemClock } from "@holdfast/shared/async/clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { DeepPartial, Permit } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, onTestFinished, test } from "vitest";
import { startConnectProxy } from "../../../../test/support/connect-proxy.ts";
import { freePort } from "../../../../test/support/free-port.ts";
import { startTcpProxy } from "../../../../test/support/tcp-proxy.ts";
import { type FakeController, startFakeController } from "../testing/fake-controller.ts";
import { registered, startLink } from "../testing/link-rig.ts";
import { type ModelAgent, volumeRef } from "../testing/model-agent.ts";
import { askController } from "./ask-controller.ts";

const permitOf = (controller: FakeController, claimUid: string, ctr: number): DeepPartial<Permit> => ({
  ...volumeRef,
  claimUid,
  node: "node-a",
  workload: `w-${claimUid}`,
  alias: "data",
  nodeEpoch: BigInt(controller.nodeEpoch()),
  epoch: { gen: 1n, ctr: BigInt(ctr) },
  oldestLiveEpoch: { gen: 1n, ctr: BigInt(ctr) },
  accessMode: AccessMode.ACCESS_MODE_MULTI_NODE_MULTI_WRITER,
  attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
  stageSecrets: { key: "canary-stage" },
  nodePublishSecrets: { key: "canary-publish" },
});

/** The order again and again, as a controller repeats what it has no answer to. */
const publishUntilAnswered = async (controller: FakeController, permit: DeepPartial<Permit>) => {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    try {
      return await controller.orders().publish({ permit });
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  throw new Error("the order was never answered");
};

const recordsOf = (agent: ModelAgent, type: string): number =>
  JSON.stringify(agent.disk().records).split(`"type":"${type}"`).length - 1;

const holdStage = (agent: ModelAgent): (() => void) => {
  const gate = Promise.withResolvers<void>();
  agent.host.dirs.makeStaging = () => gate.promise;
  return gate.resolve;
};

const proxyTo = async (controller: FakeController) => {
  const proxy = await startTcpProxy({ port: Number(controller.address.split(":")[1]) });
  onTestFinished(() => proxy.close());
  return proxy;
};

test("orders are refused until one registration was answered; a refused one is repeated on its stream, and told once", async () => {
  const controller = await startFakeController();
  controller.refuse(new HoldfastError({ kind: "precondition", reason: "NODE_PENDING", message: "approve it" }));
  const { link, log } = await startLink([controller.address]);
  const warnings = () => log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields?.["reason"]);
  await expect.poll(warnings).toEqual(["NODE_PENDING"]);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(link.registered()).toBe(false);
  expect(link.controllers()).toEqual([]);
  controller.refuse(undefined);
  await registered(link);
  expect(controller.course).toEqual(["0 open", "0 registered"]);
  expect(warnings()).toEqual(["NODE_PENDING"]);
});

test("K3: a controller that accepts and says nothing delays no other", async () => {
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void silent.close());
  const { port } = silent.address() as { port: number };
  const controller = await startFakeController();
  const { link, agent } = await startLink([`127.0.0.1:${port}`, controller.address]);
  await registered(link);
  expect((await controller.orders().publish({ permit: permitOf(controller, "a", 5) })).published).toBeDefined();
  const publish = holdStage(agent);
  const hanging = controller.orders().publish({ permit: permitOf(controller, "b", 6) });
  // Stream-1: an order that hangs delays no other frame of its stream.
  expect((await controller.orders().raiseFloor({ promisedGen: 1n })).promisedGen).toBe(1n);
  publish();
  await hanging;
});

describe("Loop-2: the stream is cut, and the agent registers again", () => {
  test.each([
    ["up", 1],
    ["up", 2],
    ["up", 3],
    ["up", 4],
    ["down", 1],
    ["down", 2],
    ["down", 3],
  ] as const)("at frame %s %i, and nothing is done twice", async (way, frame) => {
    const controller = await startFakeController();
    controller.cutAt(way, frame);
    const { agent, link } = await startLink([controller.address]);
    await registered(link);
    const answer = await publishUntilAnswered(controller, permitOf(controller, "a", 5));
    expect(answer.published?.epoch).toEqual({ gen: 1n, ctr: 5n });
    await expect.poll(() => controller.course).toEqual(expect.arrayContaining(["0 ended", "1 registered"]));
    expect((await publishUntilAnswered(controller, permitOf(controller, "a", 5))).published).toBeDefined();
    expect(recordsOf(agent, "permit")).toBe(1);
    expect(recordsOf(agent, "published")).toBe(1);
  });

  test("an answer that was handed to a dying stream is lost, and the journal gives it to the next one", async () => {
    const controller = await startFakeController();
    const proxy = await proxyTo(controller);
    const { agent, link } = await startLink([`127.0.0.1:${proxy.port}`]);
    await registered(link);
    const publish = holdStage(agent);
    const lost = controller.orders().publish({ permit: permitOf(controller, "a", 5) });
    const outcome = expect(lost).rejects.toMatchObject({ kind: "unavailable" });
    await expect.poll(() => recordsOf(agent, "permit")).toBe(1);
    // The agent answers into a connection that carries nothing any more.
    proxy.blackHole(true);
    publish();
    await expect.poll(() => recordsOf(agent, "published")).toBe(1);
    proxy.cut();
    await outcome;
    proxy.blackHole(false);
    const answer = await publishUntilAnswered(controller, permitOf(controller, "a", 5));
    expect(answer.published?.epoch).toEqual({ gen: 1n, ctr: 5n });
    expect(recordsOf(agent, "published")).toBe(1);
  });

  test("an order that hangs keeps no stream from being opened again", async () => {
    const controller = await startFakeController();
    const proxy = await proxyTo(controller);
    const { agent, link } = await startLink([`127.0.0.1:${proxy.port}`]);
    await registered(link);
    const publish = holdStage(agent);
    const lost = controller.orders().publish({ permit: permitOf(controller, "a", 5) });
    const outcome = expect(lost).rejects.toMatchObject({ reason: "STREAM_ENDED" });
    await expect.poll(() => recordsOf(agent, "permit")).toBe(1);
    proxy.cut();
    await outcome;
    await expect.poll(() => controller.course).toContain("1 registered");
    publish();
    expect((await publishUntilAnswered(controller, permitOf(controller, "a", 5))).published).toBeDefined();
    expect(recordsOf(agent, "published")).toBe(1);
  });

  test("Stream-2: a connection whose other end says nothing any more ends by keepalive", async () => {
    const controller = await startFakeController();
    const proxy = await proxyTo(controller);
    const { link } = await startLink([`127.0.0.1:${proxy.port}`], { keepalive: { timeMs: 300, timeoutMs: 200 } });
    await registered(link);
    proxy.blackHole(true);
    await expect.poll(() => link.controllers(), { timeout: 5_000 }).toEqual([]);
    proxy.blackHole(false);
    await expect.poll(() => link.controllers().length, { timeout: 5_000 }).toBe(1);
  });
});

describe("Loop-1: the controller asks for another stream", () => {
  test("the new one is registered before the old one ends, and an order on the old one is answered there", async () => {
    const controller = await startFakeController();
    const { agent, link } = await startLink([controller.address]);
    await registered(link);
    const publish = holdStage(agent);
    const underway = controller.orders().publish({ permit: permitOf(controller, "a", 5) });
    await expect.poll(() => recordsOf(agent, "permit")).toBe(1);
    controller.reconnect(10);
    await expect.poll(() => controller.course).toContain("1 registered");
    expect(controller.course).not.toContain("0 ended");
    publish();
    expect((await underway).published?.epoch).toEqual({ gen: 1n, ctr: 5n });
    await expect.poll(() => controller.course).toContain("0 ended");
    expect(controller.course).toEqual(["0 open", "0 registered", "1 open", "1 registered", "0 ended"]);
    expect(link.controllers()).toHaveLength(1);
  });

  test("one that is not registered replaces nothing", async () => {
    const controller = await startFakeController();
    const { link, fingerprints } = await startLink([controller.address]);
    await registered(link);
    controller.refuse(new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "no store" }));
    controller.reconnect(0);
    await expect.poll(() => controller.course).toContain("1 open");
    fingerprints.tell("one");
    await expect.poll(() => controller.fingerprints().length).toBe(1);
    expect(controller.course).toEqual(["0 open", "0 registered", "1 open"]);
    expect(link.controllers()).toHaveLength(1);
    controller.refuse(undefined);
    await expect.poll(() => controller.course).toContain("0 ended");
  });
});

test("each address of a name has a stream; one that vanishes keeps its own until it ends, and a new one gets one", async () => {
  const ports = await freePort();
  const [first, second, third] = [
    await startFakeController({ listen: `127.0.0.1:${ports}` }),
    await startFakeController({ listen: `127.0.0.2:${ports}` }),
    await startFakeController({ listen: `127.0.0.3:${ports}` }),
  ];
  // Nothing listens at the last one: a dial that fails has the name looked up again.
  let answer = ["127.0.0.1", "127.0.0.2", "127.0.0.4"];
  const { link } = await startLink([`cell:${ports}`], { resolve: async () => answer });
  const held = () =>
    link
      .controllers()
      .map(({ address }) => address.split(":")[0])
      .sort();
  await expect.poll(held).toEqual(["127.0.0.1", "127.0.0.2"]);
  answer = ["127.0.0.2", "127.0.0.3"];
  await expect.poll(held, { timeout: 5_000 }).toEqual(["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
  await first.stop();
  await expect.poll(held).toEqual(["127.0.0.2", "127.0.0.3"]);
  const back = await startFakeController({ listen: `127.0.0.1:${ports}` });
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(back.hellos).toEqual([]);
  expect([second, third].map(({ hellos }) => hellos.length)).toEqual([1, 1]);
});

test("the check asks over a stream of its own, registers nothing and takes no order", async () => {
  const controller = await startFakeController();
  const log = createMemoryLogger();
  const asking = { node: "node-a", instance: "i", proxy: undefined, newId: randomUUID, clock: systemClock, log };
  expect(await askController(controller.address, asking)).toMatchObject({ now: expect.any(Date), known: false });
  await expect.poll(() => controller.course).toEqual(["0 open", "0 ended"]);
  await controller.stop();
  await expect(askController(controller.address, asking)).rejects.toMatchObject({ kind: "unavailable" });
});

test("through an HTTP proxy: it is asked for the controller as the operator wrote it", async () => {
  const controller = await startFakeController();
  const proxy = await startConnectProxy({ leadsTo: () => ({ port: Number(controller.address.split(":")[1]) }) });
  onTestFinished(() => proxy.close());
  const { link } = await startLink(["controllers.cell:7602"], { proxy: proxy.url });
  await registered(link);
  expect(proxy.asked).toEqual(["controllers.cell:7602"]);
});
