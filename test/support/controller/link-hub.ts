/** A controller's listener for agents on a real socket. */
import { noGrants, wireAccess } from "@holdfast/controller/access-wiring";
import { unimplemented } from "@holdfast/controller/api/unimplemented";
import { type AgentStreams, createAgentStreams } from "@holdfast/controller/nodes/agent-streams";
import { createLinkService, type LinkService } from "@holdfast/controller/nodes/link-service";
import type { NodeRegistry } from "@holdfast/controller/nodes/node-registry-model";
import type { AgentLink } from "@holdfast/controller/nodes/open-stream";
import { systemClock } from "@holdfast/shared/async/clock";
import { AgentLinkServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { createGrpcServer, type ServerCertificates, type ServerLimits } from "@holdfast/shared/grpc/server";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { createMemoryLogger, type MemoryLogger } from "@holdfast/shared/log/logger";
import { tempSocket } from "@holdfast/shared/testing/temp-socket";
import { type DialledAgent, type DialOptions, dialAgent } from "./dial-agent.ts";

export interface HubOptions {
  readonly link?: Partial<AgentLink>;
  /** Told of the streams too. */
  readonly registry?: Pick<NodeRegistry, "linked" | "unlinked">;
  readonly limits?: ServerLimits;
  readonly admissionsPerSecond?: number;
  readonly patienceMs?: number;
  readonly certificates?: ServerCertificates;
  /** Of TCP instead of a unix socket. */
  readonly listen?: string;
}

export interface LinkHub {
  readonly address: string;
  readonly streams: AgentStreams;
  readonly service: LinkService;
  readonly log: MemoryLogger;
  /** What the registry was told. */
  readonly told: string[];
  agent(options?: DialOptions & { readonly at?: string }): DialledAgent;
  /** One that has registered, and that calls go to. */
  linked(options?: DialOptions & { readonly at?: string }): Promise<DialledAgent>;
  /** As a server that is stopped without a word to the agents. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

export const createLinkHub = async (options: HubOptions = {}): Promise<LinkHub> => {
  const log = createMemoryLogger();
  const quiet = createMemoryLogger();
  const socket = await tempSocket();
  const told: string[] = [];
  const streams = createAgentStreams({
    linked(node, instance) {
      options.registry?.linked(node, instance);
      told.push(`linked ${node}/${instance}`);
    },
    unlinked(node, instance, why) {
      options.registry?.unlinked(node, instance, why);
      told.push(`unlinked ${node}/${instance}`);
    },
  });
  const { certificates } = options;
  const { access, admission } = wireAccess(certificates === undefined ? "loopback" : "certificates", noGrants);
  const server = createGrpcServer({
    log: quiet,
    access,
    ...(certificates === undefined ? {} : { certificates }),
    limits: { maxMessageBytes: 256 * 1024, ...options.limits },
  });
  const service = createLinkService({
    admission,
    streams,
    link: unimplemented(AgentLinkServiceDefinition, { register: async () => ({ nodeEpoch: 1n }), ...options.link }),
    surround: server.surround,
    clock: systemClock,
    log,
    endOfTurn: setImmediate,
    ...(options.admissionsPerSecond === undefined ? {} : { admissionsPerSecond: options.admissionsPerSecond }),
    ...(options.patienceMs === undefined ? {} : { patienceMs: options.patienceMs }),
  });
  server.add(ServeWireDefinition, service);
  const address = await server.listen(options.listen ?? socket.address);
  const closing: (() => void)[] = [];

  const agent: LinkHub["agent"] = ({ at = address, ...about } = {}) => {
    const one = dialAgent(at, about);
    closing.push(one.cut);
    return one;
  };

  return {
    address,
    streams,
    service,
    log,
    told,
    agent,
    async linked(about) {
      const one = agent(about);
      const before = told.length;
      await one.register();
      while (told.length === before) await new Promise((resolve) => setImmediate(resolve));
      return one;
    },
    stop: () => server.stop({ graceMs: 60_000 }),
    async close() {
      for (const cut of closing) cut();
      await server.stop({ graceMs: 0 });
      await socket.remove();
    },
  };
};
