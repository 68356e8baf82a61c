/** The link between agents and controllers with certificates: who may open it, and what becomes of it when a certificate ends. */

import { unimplemented } from "@holdfast/controller/api/unimplemented";
import { createControllerStreams } from "@holdfast/node-agent/controller-link/controller-stream";
import { systemClock } from "@holdfast/shared/async/clock";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { createServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { certified } from "@holdfast/shared/testing/certified";
import { createTestAuthority, type LeafWish, type TestAuthority } from "@holdfast/shared/testing/test-authority";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createLinkHub, type HubOptions } from "../support/controller/link-hub.ts";

let authority: TestAuthority;
beforeAll(async () => {
  authority = await createTestAuthority();
});

const hub = async (options: HubOptions = {}) => {
  const { keeper } = await certified(authority, { path: "csi/controller/c1" });
  const made = await createLinkHub({ listen: "127.0.0.1:0", certificates: { keeper }, ...options });
  onTestFinished(made.close);
  return made;
};

const bearing = async (wish: LeafWish) => createChannelCredentials((await certified(authority, wish)).keeper);
const n1 = { path: "csi/node/n1" };

describe("a link with certificates", () => {
  test("is opened by the bearer of the node's certificate, and each call over it is known by that", async () => {
    const asked: CallContext["identity"][] = [];
    const { agent } = await hub({
      link: {
        async greet(_request, { identity }) {
          asked.push(identity);
          return {};
        },
      },
    });
    await agent({ credentials: await bearing(n1) }).link.greet({ node: "n1" });
    expect(asked).toMatchObject([{ role: "node", name: "n1", certificate: { trustDomain: "test.example" } }]);
  });

  test.each([
    ["another node", "csi/node/n2"],
    ["a scheduler of that name", "csi/scheduler/n1"],
    ["an operator", "csi/operator/n1"],
    ["a controller", "csi/controller/n1"],
    ["a monitor", "csi/monitor"],
  ])("is not opened by %s, nor a body sent", async (_who, path) => {
    const [, role = "", name = ""] = path.split("/");
    const identity = { role: role as "node", name };
    const made = await hub();
    const credentials = await bearing({ path });
    const stranger = made.agent({ node: "n1", identity, credentials });
    expect(await stranger.over).toMatchObject({ reason: "PERMISSION_DENIED" });

    await made.linked({ credentials: await bearing(n1), stream: "s-of-n1" });
    const channel = createGrpcChannel(made.address, { credentials, ownConnection: true });
    onTestFinished(() => channel.close());
    const wire = createGrpcClient(ServeWireDefinition, channel, { log: createMemoryLogger() });
    const chunks = async function* () {
      yield { open: { node: "n1", stream: "s-of-n1", seq: 1n } };
    };
    const body = wire.transfer(chunks())[Symbol.asyncIterator]().next();
    await expect(body).rejects.toMatchObject({ reason: "PERMISSION_DENIED" });
  });

  test("is not opened over a unix socket, whose peer is local", async () => {
    const { keeper } = await certified(authority, { path: "csi/controller/c1" });
    const made = await createLinkHub({ certificates: { keeper } });
    onTestFinished(made.close);
    expect(await made.agent({ credentials: await bearing(n1) }).over).toMatchObject({ reason: "PERMISSION_DENIED" });
  });

  test("the agent is asked for another stream before its certificate ends, and the old one ends with it", async () => {
    const made = await hub();
    const { keeper } = await certified(authority, { ...n1, notAfter: Date.now() + 6_000 });
    const reconnects: string[] = [];
    const streams = createControllerStreams({
      ...{ node: "n1", instance: "i1", proxy: undefined, newId: () => "s1", clock: systemClock },
      log: createMemoryLogger(),
      served: createServedMethods({
        definition: AgentServiceDefinition,
        implementation: unimplemented(AgentServiceDefinition, {}),
        surround: createCallSurround({ log: createMemoryLogger(), address: () => "agent" }),
      }),
      credentials: createChannelCredentials(keeper),
    });
    const stream = streams({ target: made.address, name: made.address }, ({ reason }) => reconnects.push(reason));
    await stream.client.register({ header: { name: "n1", instance: "i1" }, plugins: [] });
    await expect.poll(() => reconnects).toEqual([expect.stringMatching(/certificate/)]);
    expect(made.service.load().streams).toBe(1);
    await stream.ended;
    await expect.poll(() => made.service.load().streams).toBe(0);
  });
});
