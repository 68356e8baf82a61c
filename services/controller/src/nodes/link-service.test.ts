import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { TransferBody, TransferChunk } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { createGrpcClient } from "@holdfast/shared/grpc/client";
import { readFrame } from "@holdfast/shared/grpc/stream/frames";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, describe, expect, test } from "vitest";
import { helloFrame } from "../../../../test/support/controller/dial-agent.ts";
import { createLinkHub, type HubOptions, type LinkHub } from "../../../../test/support/controller/link-hub.ts";

const hubs: LinkHub[] = [];
const open = async (options?: HubOptions): Promise<LinkHub> => {
  const hub = await createLinkHub(options);
  hubs.push(hub);
  return hub;
};
afterEach(async () => {
  for (const hub of hubs.splice(0)) await hub.close();
});

const orders = (hub: LinkHub, node = "n1") =>
  createGrpcClient(AgentServiceDefinition, hub.streams.channelTo(node), { log: createMemoryLogger() });
const failure = (run: Promise<unknown>): Promise<unknown> =>
  run.then(
    () => undefined,
    (error: unknown) => error,
  );
const nothingLeft = { streams: 0, asked: 0, served: 0, queuedBytes: 0 };

describe("a stream", () => {
  test.each([
    ["another node", { role: "node", name: "n2" }],
    ["a scheduler", { role: "scheduler", name: "n1" }],
  ] as const)("LS1 of %s does not speak for the node", async (_who, identity) => {
    const hub = await open();
    expect(await hub.agent({ identity }).over).toMatchObject({ reason: "PERMISSION_DENIED" });
    expect(hub.service.load()).toEqual(nothingLeft);
  });

  test.each(["anonymous", "local"] as const)("LS1 of %s is the node's of its hello, and no other's", async (role) => {
    const asked: CallContext["identity"][] = [];
    const hub = await open({
      link: {
        async greet(_request, { identity }) {
          asked.push(identity);
          return {};
        },
      },
    });
    await hub.agent({ identity: { role, name: "" } }).link.greet({ node: "n1" });
    expect(asked).toEqual([{ role: "node", name: "n1" }]);
  });

  test("begins with its hello, which is said once", async () => {
    const hub = await open({ patienceMs: 200 });
    const cases: [string, Parameters<LinkHub["agent"]>[0], object][] = [
      ["another frame", { firstFrame: new Uint8Array([10, 0]) }, { reason: "INVALID_ARGUMENT" }],
      ["nothing that can be read", { firstFrame: new Uint8Array([255, 255]) }, { reason: "INVALID_ARGUMENT" }],
      ["no node", { node: "", identity: { role: "local", name: "" } }, { violations: [{ field: "hello.node" }] }],
      ["no process", { instance: "" }, { violations: [{ field: "hello.instance" }] }],
      ["no stream", { stream: "" }, { violations: [{ field: "hello.stream" }] }],
    ];
    for (const [what, about, refusal] of cases) expect(await hub.agent(about).over, what).toMatchObject(refusal);
    const twice = hub.agent({ stream: "s" });
    await twice.register();
    expect(await hub.agent({ stream: "s" }).over).toMatchObject({ violations: [{ field: "hello.stream" }] });
    twice.send(helloFrame({ node: "n1", instance: "i1", stream: "s" }));
    expect(await twice.over).toMatchObject({ reason: "INVALID_ARGUMENT" });
    await expect.poll(hub.service.load).toEqual(nothingLeft);
  });

  test("that says nothing does not stay, nor does a body that does not say whose it is", async () => {
    const hub = await open({ patienceMs: 50 });
    const { wire } = hub.agent();
    async function* silent(): AsyncGenerator<never> {
      await new Promise(() => undefined);
    }
    const serve = wire.serve(silent())[Symbol.asyncIterator]();
    expect(await failure(serve.next())).toMatchObject({ reason: "DEADLINE" });
    const transfer = wire.transfer(silent())[Symbol.asyncIterator]();
    expect(await failure(transfer.next())).toMatchObject({ reason: "DEADLINE" });
  });

  test("above what one node may have is refused", async () => {
    const hub = await open();
    const agents = Array.from({ length: 16 }, () => hub.agent());
    await Promise.all(agents.map((agent) => agent.register()));
    expect(await hub.agent().over).toMatchObject({ kind: "exhausted", reason: "OVERLOADED" });
    agents[0]?.end();
    await agents[0]?.over;
    await hub.agent().register();
  });

  test.each([
    ["another node", { name: "n2" }, "PERMISSION_DENIED"],
    ["another process", { instance: "i2" }, "NODE_MISMATCH"],
  ])("LS2 is not the node's by a registration of %s", async (_whose, header, reason) => {
    const hub = await open();
    expect(await failure(hub.agent().register(header))).toMatchObject({ reason });
    expect(hub.told).toEqual([]);
  });

  test("LS2 is not the node's before its registration succeeds, and no order goes before that answer", async () => {
    let refuse = true;
    const hub = await open({
      link: {
        async register() {
          if (refuse)
            throw new HoldfastError({ kind: "aborted", reason: "NODE_CONFLICT", message: "another one lives" });
          return { nodeEpoch: 1n };
        },
      },
    });
    hub.streams.onLink(() => void failure(orders(hub).raiseFloor({})));
    const kinds: string[] = [];
    const agent = hub.agent({
      serve: { raiseFloor: async () => ({}) },
      onFrame(frame) {
        kinds.push(readFrame(frame).kind);
        return true;
      },
    });
    expect(await failure(agent.register())).toMatchObject({ reason: "NODE_CONFLICT" });
    expect(await failure(orders(hub).raiseFloor({}))).toMatchObject({ reason: "NOT_SENT" });
    refuse = false;
    await agent.register();
    await expect.poll(() => kinds).toEqual(["answer", "answer", "call"]);
  });

  test("LS2 that has ended while it registered is not the node's", async () => {
    let registered = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      registered = resolve;
    });
    const hub = await open({ link: { register: () => held.then(() => ({})) } });
    const agent = hub.agent();
    void failure(agent.register());
    await expect.poll(() => hub.service.load().served).toBe(1);
    agent.cut();
    await expect.poll(() => hub.service.load().asked).toBe(0);
    await agent.over;
    registered();
    await expect.poll(hub.service.load).toEqual(nothingLeft);
    expect(hub.told).toEqual([]);
  });
});

describe("what cannot be read", () => {
  test.each([
    ["a frame of no kind", new Uint8Array([250, 1, 0])],
    ["a frame that is cut short", new Uint8Array([10, 200, 1])],
    ["a frame of more than 64 KiB", helloFrame({ node: "x".repeat(70_000), instance: "i", stream: "s" })],
  ])("LS4 (%s) ends its stream and no other, and is told once by the node's name", async (_what, frame) => {
    const hub = await open();
    const [bad, good] = [await hub.linked(), await hub.linked({ node: "n2", serve: { raiseFloor: async () => ({}) } })];
    const underWay = failure(orders(hub).raiseFloor({}));
    bad.send(frame);
    expect(await bad.over).toMatchObject({ kind: "invalid" });
    expect(await underWay).toMatchObject({ kind: expect.stringMatching(/unavailable|unimplemented/) });
    await orders(hub, "n2").raiseFloor({});
    expect(hub.log.lines.filter(({ level }) => level === "warn")).toMatchObject([{ fields: { node: "n1" } }]);
    good.cut();
  });
});

describe("a body beside the stream", () => {
  test("LS5 reaches the stream that it names: a large registration is the first call, and a stream of answers comes whole", async () => {
    const plugins: number[] = [];
    const hub = await open({
      link: {
        async register(request) {
          plugins.push(request.plugins.length);
          return {};
        },
      },
    });
    const agent = hub.agent({
      serve: {
        async *inventory() {
          for (let n = 0; n < 300; n += 1) yield { orphan: { path: "/p".repeat(200) } };
        },
      },
    });
    const many = Array.from({ length: 200 }, (_, n) => ({ plugin: `p${n}`, version: "v".repeat(500) }));
    await agent.link.register({ header: { name: "n1", instance: "i1" }, plugins: many });
    await expect.poll(() => hub.told).toEqual(["linked n1/i1"]);
    expect(plugins).toEqual([200]);
    let count = 0;
    for await (const { orphan } of orders(hub).inventory({})) count += orphan === undefined ? 0 : 1;
    expect(count).toBe(300);
    await expect.poll(() => hub.service.load()).toMatchObject({ asked: 0, served: 0 });
  });

  test("LS5 of another node is refused, and so is one of a stream that is not here", async () => {
    const hub = await open({ patienceMs: 50 });
    const agent = await hub.linked({ stream: "s" });
    const asked = async (open: TransferChunk["open"]): Promise<unknown> => {
      async function* chunks(): AsyncGenerator<TransferChunk> {
        yield TransferChunk.fromPartial(open === undefined ? {} : { open });
      }
      return failure(agent.wire.transfer(chunks())[Symbol.asyncIterator]().next());
    };
    const body = TransferBody.TRANSFER_BODY_REQUEST;
    expect(await asked(undefined)).toMatchObject({ violations: [{ field: "open" }] });
    expect(await asked({ node: "n2", stream: "s", body, seq: 1n })).toMatchObject({ reason: "PERMISSION_DENIED" });
    expect(await asked({ node: "n1", stream: "t", body, seq: 1n })).toMatchObject({ reason: "STREAM_UNKNOWN" });
    expect(await asked({ node: "n1", stream: "s", body, seq: 9n })).toMatchObject({ reason: "TRANSFER_UNEXPECTED" });
  });
});

describe("a controller that goes down", () => {
  test("tells every agent, takes no stream any more, and ends each as soon as nothing is under way", async () => {
    const hub = await open();
    let finish = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const told: string[] = [];
    const serve = { raiseFloor: () => held.then(() => ({ promisedGen: 7n })) };
    const busy = await hub.linked({ serve, onReconnect: () => void told.push("busy") });
    const idle = await hub.linked({ node: "n2", onReconnect: () => void told.push("idle") });
    const underWay = orders(hub).raiseFloor({});
    await expect.poll(() => busy.calls.load().served).toBe(1);
    const left = hub.service.leave(60_000);
    expect(await idle.over).toBeUndefined();
    expect(await hub.agent({ node: "n3" }).over).toMatchObject({ kind: "unavailable" });
    expect(hub.service.load()).toMatchObject({ streams: 1, asked: 1 });
    finish();
    expect((await underWay).promisedGen).toBe(7n);
    await left;
    expect(await busy.over).toBeUndefined();
    expect(told.sort()).toEqual(["busy", "idle"]);
    expect(hub.service.load()).toEqual(nothingLeft);
  });

  test("waits for none longer than the grace", async () => {
    const hub = await open();
    const busy = await hub.linked({ serve: { raiseFloor: () => new Promise(() => undefined) } });
    const underWay = failure(orders(hub).raiseFloor({}));
    await expect.poll(() => busy.calls.load().served).toBe(1);
    await hub.service.leave(50);
    expect(await underWay).toMatchObject({ reason: "STREAM_ENDED" });
    await busy.over;
  });
});
