import type { ControllerStream } from "@holdfast/node-agent/controller-link/controller-stream";
import { instanceOf, openAgentStream, registration } from "../../test/harness/agent-stream.ts";
import { run } from "./load.ts";

/**
 * Agents that mount nothing and answer at once, all in this process, each with a connection of its own to every controller: what controllers do is then all
 * that takes time, on as many nodes as it takes.
 */
export interface FakeAgents {
  readonly nodes: readonly string[];
  stop(): Promise<void>;
}

const openStream = (controller: string, node: string, nodeEpoch: () => bigint): ControllerStream =>
  openAgentStream(controller, node, {
    publish: async ({ permit }) => ({ published: { hostPath: `/fake/${permit?.volume}`, epoch: permit?.epoch } }),
    release: async ({ epoch }) => ({ released: { epoch } }),
    async *inventory() {
      yield { header: { node, journalUid: `journal-${node}`, nodeEpoch: nodeEpoch(), bootId: `boot-${node}` } };
      yield { end: { volumes: 0, orphans: 0 } };
    },
    // Asked now and then, whatever is measured: they have nothing to tell.
    stats: async () => ({ volumes: [] }),
  });

export const startFakeAgents = async (controllers: readonly string[], count: number): Promise<FakeAgents> => {
  const nodes = Array.from({ length: count }, (_, index) => `fake-${index}`);
  const streams: ControllerStream[] = [];
  const registerAt = async (controller: string, node: string): Promise<void> => {
    let nodeEpoch = 0n;
    const stream = openStream(controller, node, () => nodeEpoch);
    streams.push(stream);
    ({ nodeEpoch } = await stream.client.register(registration(node)));
    await stream.client.report({
      node,
      instance: instanceOf(node),
      nodeEpoch,
      baseRevision: 1n,
      revision: 1n,
      health: { accepting: true },
    });
  };
  await run([...nodes.keys()], 8, async (index) => {
    for (const controller of controllers) await registerAt(controller, nodes[index] ?? "");
  });
  return {
    nodes,
    async stop() {
      await Promise.all(streams.map((stream) => stream.end("the measurement is over")));
    },
  };
};
