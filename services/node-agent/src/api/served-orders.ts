/** The orders of controllers, as they are served over the streams that the agent keeps to them. */
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { type CallSurround, type CallSurroundOptions, createCallSurround } from "@holdfast/shared/grpc/call-surround";
import { createServedMethods, type ServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { type AgentServiceOptions, createAgentService } from "./agent-service.ts";
import { agentAccess } from "./rules.ts";

/** Calls of one controller at once: relayed calls to a plugin that hangs must not hold its permits back. */
const limits = { maxConcurrentStreams: 512 };

export function createOrderSurround(options: Pick<CallSurroundOptions, "log" | "metrics">): CallSurround {
  return createCallSurround({ ...options, access: agentAccess("loopback"), limits, address: () => "controllers" });
}

export function createServedOrders(
  options: AgentServiceOptions,
  surround: Pick<CallSurround, "service">,
): ServedMethods {
  return createServedMethods({
    definition: AgentServiceDefinition,
    implementation: createAgentService(options),
    surround,
  });
}
