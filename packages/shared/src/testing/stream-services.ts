/** A pair of ends with services on both, and a client of each: what a test does not serve is not implemented. */
import { HoldfastError } from "../errors/holdfast-error.ts";
import { AgentServiceDefinition } from "../gen/holdfast/internal/v1/agent.ts";
import { AgentLinkServiceDefinition } from "../gen/holdfast/internal/v1/controller_link.ts";
import type { Implementation } from "../grpc/call-context.ts";
import { type CallLimits, type CallSurround, createCallSurround } from "../grpc/call-surround.ts";
import { peerHeader } from "../grpc/caller-interceptor.ts";
import { createGrpcClient, type GrpcClient } from "../grpc/client.ts";
import type { Identity } from "../grpc/identity.ts";
import { createServedMethods } from "../grpc/stream/served-methods.ts";
import { createMemoryLogger } from "../log/logger.ts";
import { createStreamPair, type StreamPair, type StreamPairOptions } from "./stream-pair.ts";

export interface StreamServicesOptions extends Partial<StreamPairOptions> {
  readonly onAgent?: Partial<Implementation<typeof AgentServiceDefinition>>;
  readonly onController?: Partial<Implementation<typeof AgentLinkServiceDefinition>>;
  /** Whom the controller takes the agent for; without it: for whom it says it is. */
  readonly identity?: Identity;
  readonly limits?: CallLimits;
}

export interface StreamServices extends StreamPair {
  readonly log: ReturnType<typeof createMemoryLogger>;
  readonly surround: CallSurround;
  /** Asks the agent. */
  readonly orders: GrpcClient<typeof AgentServiceDefinition>;
  /** Asks the controller. */
  readonly requests: GrpcClient<typeof AgentLinkServiceDefinition>;
}

export function createStreamServices(options: StreamServicesOptions): StreamServices {
  const { onAgent = {}, onController = {}, identity, limits = {}, ...rest } = options;
  const log = createMemoryLogger();
  const surround = createCallSurround({ log, limits, address: () => "stream" });
  const agent = createServedMethods({
    definition: AgentServiceDefinition,
    implementation: complete(onAgent) as Implementation<typeof AgentServiceDefinition>,
    surround,
  });
  const controller = createServedMethods({
    definition: AgentLinkServiceDefinition,
    implementation: complete(onController) as Implementation<typeof AgentLinkServiceDefinition>,
    surround,
    ...(identity === undefined ? {} : { peer: { identity, [peerHeader]: undefined } }),
  });
  const pair = createStreamPair({ agent, controller, ...rest });
  const caller: Identity = { role: "controller", name: "c1" };
  return {
    ...pair,
    log,
    surround,
    orders: createGrpcClient(AgentServiceDefinition, pair.controller.channel, { log, identity: caller }),
    requests: createGrpcClient(AgentLinkServiceDefinition, pair.agent.channel, {
      log,
      identity: { role: "node", name: "n1" },
    }),
  };
}

function complete(handlers: object): unknown {
  const missing = () => {
    throw new HoldfastError({ kind: "unimplemented", reason: "NOT_IMPLEMENTED", message: "this test serves it not" });
  };
  return new Proxy(handlers, { get: (target, key) => Reflect.get(target, key) ?? missing });
}
