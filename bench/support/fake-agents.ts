import {
  AgentServiceDefinition,
  type InventoryResponse,
  type DeepPartial as Partial,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  ControllerLinkServiceDefinition,
  type DeepPartial,
  type RegisterRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { VerificationScope } from "@holdfast/shared/gen/holdfast/v1/common";
import { PluginHealth, PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { withIdentity } from "@holdfast/shared/grpc/identity";
import { type CallContext, createChannel, createClient, createServer, type ServiceImplementation } from "nice-grpc";
import { run } from "./load.ts";

/**
 * Agents that mount nothing and answer at once, all in this process: what controllers do is then all that takes time, on as many
 * nodes as it takes.
 */
export interface FakeAgents {
  readonly nodes: readonly string[];
  stop(): Promise<void>;
}

type Agent = ServiceImplementation<typeof AgentServiceDefinition>;

export async function* registration(name: string, address: string): AsyncIterable<DeepPartial<RegisterRequest>> {
  yield {
    header: {
      name,
      machineId: `machine-${name}`,
      bootId: `boot-${name}`,
      instance: `instance-${name}`,
      journalUid: `journal-${name}`,
      address,
      version: "0.1.0",
      rootDir: "/var/lib/holdfast",
      verificationScope: VerificationScope.VERIFICATION_SCOPE_HOST,
      fingerprintRevision: 1n,
    },
  };
  yield {
    plugin: {
      plugin: "sim.holdfast.dev",
      version: "1.0.0",
      instanceId: `plugin-${name}`,
      role: PluginRole.PLUGIN_ROLE_NODE,
      socket: "/run/holdfast/sim.sock",
      health: PluginHealth.PLUGIN_HEALTH_HEALTHY,
      nodeId: name,
    },
  };
}

const agentOf = (node: string, nodeEpoch: () => bigint): Agent => {
  const none = async (_request: unknown, _context: CallContext): Promise<never> => {
    throw new Error("not part of this measurement");
  };
  return {
    publish: async ({ permit }) => ({ published: { hostPath: `/fake/${permit?.volume}`, epoch: permit?.epoch } }),
    release: async ({ epoch }) => ({ released: { epoch } }),
    async *inventory(): AsyncIterable<Partial<InventoryResponse>> {
      yield { header: { node, journalUid: `journal-${node}`, nodeEpoch: nodeEpoch(), bootId: `boot-${node}` } };
      yield { end: { volumes: 0, orphans: 0 } };
    },
    expand: none,
    // Asked now and then, whatever is measured: they have nothing to tell.
    stats: async () => ({ volumes: [] }),
    raiseFloor: none,
    relay: none,
    // biome-ignore lint/correctness/useYield: it is refused, as a stream.
    async *relayStream() {
      throw new Error("not part of this measurement");
    },
  };
};

const beatMs = 2_000;

export const startFakeAgents = async (controller: string, count: number): Promise<FakeAgents> => {
  const channel = createChannel(controller);
  const link = createClient(ControllerLinkServiceDefinition, channel);
  const servers: { shutdown(): Promise<void> }[] = [];
  const beats: (() => Promise<unknown>)[] = [];
  const nodes = Array.from({ length: count }, (_, index) => `fake-${index}`);
  await run([...nodes.keys()], 8, async (index) => {
    const name = nodes[index] ?? "";
    let nodeEpoch = 0n;
    const server = createServer();
    server.add(
      AgentServiceDefinition,
      agentOf(name, () => nodeEpoch),
    );
    const port = await server.listen("127.0.0.1:0");
    servers.push(server);
    const metadata = withIdentity(undefined, { role: "node", name });
    ({ nodeEpoch } = await link.register(registration(name, `127.0.0.1:${port}`), { metadata }));
    const beat = { node: name, instance: `instance-${name}`, nodeEpoch, baseRevision: 1n, revision: 1n };
    const tell = () => link.heartbeat(beat, { metadata });
    await tell();
    beats.push(tell);
  });
  const timer = setInterval(() => {
    for (const tell of beats) tell().catch(() => undefined);
  }, beatMs);
  return {
    nodes,
    async stop() {
      clearInterval(timer);
      channel.close();
      for (const server of servers) await server.shutdown();
    },
  };
};
