/**
 * node transfers-main.ts CONTROLLER: an agent that answers orders at once, and a relayed call with 16 MiB. It dials as an agent does, with
 * the agent's own stream.
 */
import { createControllerStreams } from "@holdfast/node-agent/controller-link/controller-stream";
import { systemClock } from "@holdfast/shared/async/clock";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import { createServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { transferBytes, transferNode } from "./support/transfer-sizes.ts";

const [controller = ""] = process.argv.slice(2);
const log = createMemoryLogger();
const large = new Uint8Array(transferBytes).fill(7);
const orders: Partial<Implementation<typeof AgentServiceDefinition>> = {
  stats: async () => ({ volumes: [] }),
  relay: async () => ({ response: large }),
};
const open = createControllerStreams({
  node: transferNode,
  instance: "bench",
  served: createServedMethods({
    definition: AgentServiceDefinition,
    implementation: orders as Implementation<typeof AgentServiceDefinition>,
    surround: createCallSurround({ log, address: () => "bench" }),
  }),
  proxy: undefined,
  newId: () => crypto.randomUUID(),
  clock: systemClock,
  log,
});
const { client, ended } = open({ name: controller, target: controller }, () => undefined);
await client.register({ header: { name: transferNode, instance: "bench" } });
process.stdout.write(`${JSON.stringify({ message: "ready" })}\n`);
await ended;
process.exit(0);
