/** The same calls over a real connection: grpc-js at both ends of a unix socket. */
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../async/clock.ts";
import { AgentServiceDefinition } from "../../gen/holdfast/internal/v1/agent.ts";
import {
  AgentLinkServiceDefinition,
  ControllerLinkServiceDefinition,
} from "../../gen/holdfast/internal/v1/controller_link.ts";
import { createMemoryLogger } from "../../log/logger.ts";
import { tempSocket } from "../../testing/temp-socket.ts";
import { unpaced } from "../../testing/unpaced.ts";
import type { Implementation } from "../call-context.ts";
import { createCallSurround } from "../call-surround.ts";
import { peerHeader } from "../caller-interceptor.ts";
import { createGrpcChannel, createGrpcClient } from "../client.ts";
import { createGrpcServer } from "../server.ts";
import { ServeWireDefinition } from "./serve-wire.ts";
import { createServedMethods } from "./served-methods.ts";
import { createStreamCalls, type StreamCalls } from "./stream-calls.ts";
import { createTransferMeeting } from "./transfer-meeting.ts";
import { createTransferOpener } from "./transfer-opener.ts";

const idle = { asked: 0, served: 0, queuedBytes: 0 };
const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function connected(onAgent: Partial<Implementation<typeof AgentServiceDefinition>>) {
  const log = createMemoryLogger();
  const socket = await tempSocket();
  cleanups.push(socket.remove);
  const meeting = createTransferMeeting({ clock: systemClock, patienceMs: 10_000, pace: unpaced });
  const server = createGrpcServer({ log, reflection: false });
  const { promise: controllerSide, resolve: registered } = Promise.withResolvers<StreamCalls>();
  const onController: Partial<Implementation<typeof AgentLinkServiceDefinition>> = {
    greet: async ({ node }) => ({ controllerId: `c of ${node}` }),
    requestClaims: async ({ workload }) => ({ claims: [{ workload }] }),
  };
  const served = createServedMethods({
    definition: AgentLinkServiceDefinition,
    implementation: onController as Implementation<typeof AgentLinkServiceDefinition>,
    surround: server.surround,
    peer: { identity: { role: "node", name: "n1" }, [peerHeader]: undefined },
  });
  server.add(ServeWireDefinition, {
    async *serve(frames, { signal }) {
      const calls = createStreamCalls({
        side: "controller",
        peer: "the agent of node n1",
        served,
        transfers: meeting.bodies,
        onNotice: () => registered(calls),
      });
      signal.addEventListener("abort", () => calls.end("the agent is gone"), { once: true });
      const read = async () => {
        for await (const frame of frames) calls.take(frame);
      };
      read().then(
        () => calls.end("the agent has ended it"),
        (error: unknown) => calls.end(String(error)),
      );
      yield* calls.frames;
      await calls.ended;
    },
    async *transfer(chunks, { signal }) {
      const iterator = chunks[Symbol.asyncIterator]();
      const open = (await iterator.next()).value?.open;
      if (open !== undefined) yield* meeting.arrived(open, { [Symbol.asyncIterator]: () => iterator }, signal);
    },
  });
  const address = await server.listen(socket.address);
  const channel = createGrpcChannel(address);
  const client = createGrpcClient(ServeWireDefinition, channel, { log });
  const agent = createStreamCalls({
    side: "agent",
    peer: "the controller",
    served: createServedMethods({
      definition: AgentServiceDefinition,
      implementation: onAgent as Implementation<typeof AgentServiceDefinition>,
      surround: createCallSurround({ log, address: () => "stream" }),
    }),
    transfers: createTransferOpener({
      node: "n1",
      stream: "s1",
      limit: 4,
      pace: unpaced,
      open: (chunks, signal) => client.transfer(chunks, { signal }),
    }),
    onNotice: () => undefined,
  });
  const receive = async () => {
    for await (const frame of client.serve(agent.frames)) agent.take(frame);
  };
  const over = receive().then(
    () => agent.end("the controller has ended it"),
    (error: unknown) => agent.end(String(error)),
  );
  agent.notify(new Uint8Array([1]));
  cleanups.push(async () => {
    agent.end("the test is over");
    await server.stop({ graceMs: 0 });
    await over;
    channel.close();
  });
  const controller = await controllerSide;
  return {
    server,
    agent,
    controller,
    over,
    orders: createGrpcClient(AgentServiceDefinition, controller.channel, { log }),
    requests: createGrpcClient(AgentLinkServiceDefinition, agent.channel, { log }),
  };
}

describe("over a connection", () => {
  test("calls go both ways, large ones and streams too, many at once", async () => {
    const { orders, requests, agent, controller } = await connected({
      relay: async ({ request }) => ({ response: request }),
      async *inventory() {
        for (let at = 0; at < 100; at += 1) yield { volume: { volume: `v${at}` } };
      },
    });
    expect((await requests.greet({ node: "n1" })).controllerId).toBe("c of n1");
    const small = await Promise.all(
      Array.from({ length: 200 }, (_, at) => orders.relay({ request: Buffer.from(`small ${at}`) })),
    );
    expect(small.map(({ response }) => Buffer.from(response ?? []).toString())).toEqual(
      Array.from({ length: 200 }, (_, at) => `small ${at}`),
    );
    const large = Buffer.alloc(3_000_000, "abc");
    const answers = await Promise.all(Array.from({ length: 10 }, () => orders.relay({ request: large })));
    for (const { response } of answers) expect(Buffer.compare(response ?? Buffer.alloc(0), large)).toBe(0);
    const workload = "w".repeat(500_000);
    expect((await requests.requestClaims({ workload })).claims[0]?.workload).toBe(workload);
    const volumes: (string | undefined)[] = [];
    for await (const { volume } of orders.inventory({})) volumes.push(volume?.volume);
    expect(volumes).toEqual(Array.from({ length: 100 }, (_, at) => `v${at}`));
    await expect.poll(() => [agent.load(), controller.load()]).toEqual([idle, idle]);
  });

  test("the end of the server ends what was asked, on both sides", async () => {
    let aborted = false;
    const { server, orders, agent, controller, over } = await connected({
      stats: (_, { signal }) =>
        new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => {
            aborted = true;
            reject(signal.reason);
          }),
        ),
    });
    const call = orders.stats({});
    call.catch(() => undefined);
    await expect.poll(() => agent.load().served).toBe(1);
    await server.stop({ graceMs: 100 });
    await expect(call).rejects.toMatchObject({ kind: "unavailable", reason: "STREAM_ENDED" });
    await over;
    await Promise.all([agent.ended, controller.ended]);
    expect(aborted).toBe(true);
    expect([agent.load(), controller.load()]).toEqual([idle, idle]);
  });
});

test("the paths are the proto's own", () => {
  const pathsOf = ({ fullName, methods }: typeof ServeWireDefinition | typeof ControllerLinkServiceDefinition) =>
    Object.values(methods).map(({ name, requestStream, responseStream }) => [
      fullName,
      name,
      requestStream,
      responseStream,
    ]);
  expect(pathsOf(ServeWireDefinition)).toEqual(pathsOf(ControllerLinkServiceDefinition));
});
