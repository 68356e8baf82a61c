/** An agent's end of a stream to a controller, with no agent behind it: the caller registers, reports, and answers orders itself. */
import { randomUUID } from "node:crypto";
import { type ControllerStream, createControllerStreams } from "@holdfast/node-agent/controller-link/controller-stream";
import { systemClock } from "@holdfast/shared/async/clock";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { DeepPartial, RegisterRequest } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { VerificationScope } from "@holdfast/shared/gen/holdfast/v1/common";
import { PluginHealth, PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import { createServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { createLogger } from "@holdfast/shared/log/logger";

type Agent = Implementation<typeof AgentServiceDefinition>;

const log = createLogger({ level: "error" });
const surround = createCallSurround({ log, address: () => "controllers" });

const refused = Object.fromEntries(
  Object.keys(AgentServiceDefinition.methods).map((method) => [
    method,
    () => Promise.reject(new Error(`there is no agent that could answer ${method}`)),
  ]),
) as unknown as Agent;

/** It holds nothing, and promises whatever it is asked for. */
const promised: Agent["raiseFloor"] = async ({ promisedGen, vettingUid }) => ({ promisedGen, vettingUid });

export const instanceOf = (node: string): string => `instance-${node}`;

export const openAgentStream = (controller: string, node: string, answers: Partial<Agent> = {}): ControllerStream => {
  const open = createControllerStreams({
    node,
    instance: instanceOf(node),
    served: createServedMethods({
      definition: AgentServiceDefinition,
      implementation: { ...refused, raiseFloor: promised, ...answers },
      surround,
    }),
    proxy: undefined,
    newId: randomUUID,
    clock: systemClock,
    log,
  });
  return open({ target: controller, name: controller }, () => undefined);
};

/** Of a host with one plugin. */
export const registration = (name: string): DeepPartial<RegisterRequest> => ({
  header: {
    name,
    machineId: `machine-${name}`,
    bootId: `boot-${name}`,
    instance: instanceOf(name),
    journalUid: `journal-${name}`,
    version: "0.1.0",
    rootDir: "/var/lib/holdfast",
    verificationScope: VerificationScope.VERIFICATION_SCOPE_HOST,
    fingerprintRevision: 1n,
  },
  plugins: [
    {
      plugin: "sim.holdfast.dev",
      version: "1.0.0",
      instanceId: `plugin-${name}`,
      role: PluginRole.PLUGIN_ROLE_NODE,
      socket: "/run/holdfast/sim.sock",
      health: PluginHealth.PLUGIN_HEALTH_HEALTHY,
      nodeId: name,
    },
  ],
});
