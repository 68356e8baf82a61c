/** A controller that is away for a moment: what only reads is asked again, what changes anything is not. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { tempSocket } from "@holdfast/shared/testing/temp-socket";
import { expect, it, onTestFinished } from "vitest";
import { connect } from "../../packages/cli/src/frame/clients.ts";
import { unimplemented } from "../../services/controller/src/api/unimplemented.ts";

it("a read that met UNAVAILABLE is asked again by the command line, a change is not", async () => {
  const socket = await tempSocket();
  const asked: string[] = [];
  const away = (method: string): void => {
    asked.push(method);
    if (asked.filter((one) => one === method).length > 1) return;
    throw new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "in a moment" });
  };
  const server = createGrpcServer({ log: createMemoryLogger() });
  server.add(
    NodeServiceDefinition,
    unimplemented(NodeServiceDefinition, {
      async getNode() {
        away("GetNode");
        return { node: { name: "a" } };
      },
      async forgetNode() {
        away("ForgetNode");
        return {};
      },
    }),
  );
  await server.listen(socket.address);
  const clients = await connect({
    address: socket.address,
    namespace: "default",
    identity: "operator/ada",
    certs: undefined,
    timeoutMs: 10_000,
    json: false,
    colour: false,
  });
  onTestFinished(async () => {
    clients.close();
    await server.stop({ graceMs: 0 });
    await socket.remove();
  });
  expect(await clients.nodes.getNode({ name: "a" })).toMatchObject({ node: { name: "a" } });
  await expect(clients.nodes.forgetNode({ name: "a" })).rejects.toMatchObject({ reason: "STORE_UNAVAILABLE" });
  expect(asked).toEqual(["GetNode", "GetNode", "ForgetNode"]);
});
