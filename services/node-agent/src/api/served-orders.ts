/** The orders of controllers, as they are served over the streams that the agent keeps to them. */
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { CallSurround } from "@holdfast/shared/grpc/call-surround";
import { createServedMethods, type ServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { type AgentServiceOptions, createAgentService } from "./agent-service.ts";

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
