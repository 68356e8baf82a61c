/** What a controller says to the agent's own check: asked over a stream that registers nothing and takes no order. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import { createServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { type ControllerStreamOptions, createControllerStreams } from "./controller-stream.ts";

const patienceMs = 3_000;

export async function askController(
  controller: string,
  options: Omit<ControllerStreamOptions, "served">,
): Promise<{ readonly now: Date | undefined; readonly known: boolean }> {
  const { node, log } = options;
  const implementation = Object.fromEntries(
    Object.keys(AgentServiceDefinition.methods).map((method) => [method, () => Promise.reject(takesNoOrder(node))]),
  ) as unknown as Implementation<typeof AgentServiceDefinition>;
  const surround = createCallSurround({ log, address: () => "check" });
  const served = createServedMethods({ definition: AgentServiceDefinition, implementation, surround });
  const open = createControllerStreams({ ...options, served });
  const stream = open({ target: controller, name: controller }, () => undefined);
  try {
    return await stream.client.greet({ node }, { deadlineMs: patienceMs });
  } finally {
    await stream.end("the check is over");
  }
}

const takesNoOrder = (node: string): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "AGENT_STARTING",
    message: `the check of node ${node} takes no orders; start the agent`,
    metadata: { node },
  });
