/** A controller whose nodes are agents that register with it over streams, with its API; its clock is the test's. */
import { createAcknowledgements } from "@holdfast/controller/nodes/acknowledgements";
import { createControllerLinkService } from "@holdfast/controller/nodes/controller-link-service";
import { createNodeRegistry } from "@holdfast/controller/nodes/node-registry";
import type { NodeRegistry } from "@holdfast/controller/nodes/node-registry-model";
import { createNodeStore } from "@holdfast/controller/nodes/node-store";
import { createToldNews } from "@holdfast/controller/nodes/told-news";
import { VerificationScope } from "@holdfast/shared/gen/holdfast/v1/common";
import { PluginFingerprint, PluginHealth, PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { onTestFinished } from "vitest";
import { createLinkHub } from "./link-hub.ts";
import { serveApi } from "./served-api.ts";
import { createWorld, plugin } from "./world.ts";

export const graceMs = 3_000;

export type NodeWorld = Awaited<ReturnType<typeof createNodeWorld>>;

const half = (node: string): PluginFingerprint =>
  PluginFingerprint.fromPartial({
    plugin,
    ...{ version: "1.0.0", instanceId: `${plugin}-${node}`, nodeId: node },
    ...{ role: PluginRole.PLUGIN_ROLE_NODE, health: PluginHealth.PLUGIN_HEALTH_HEALTHY },
  });

export const createNodeWorld = async () => {
  const over = new AbortController();
  onTestFinished(() => over.abort(new DOMException("over", "AbortError")));
  const { signal } = over;
  const log = createMemoryLogger();
  const ids = { uuid: () => crypto.randomUUID(), random: () => 0.5 };
  let made: NodeRegistry | undefined;
  const world = await createWorld({
    registry: (store, clock) => {
      const nodes = createNodeStore({ store, clock, ids, signal });
      made = createNodeRegistry({ nodes, clock, log, graceMs, controllerId: "c1", signal });
      return made;
    },
  });
  onTestFinished(() => world.close());
  if (made === undefined) throw new Error("a world with a registry makes one");
  const registry = made;
  await registry.load();
  registry.watchLinks(signal).catch(() => undefined);
  const { records, clock, store } = world;
  const nodeOf = (node: string) => registry.get(node)?.record;
  const hub = await createLinkHub({
    registry,
    link: createControllerLinkService({
      registry,
      acknowledgements: createAcknowledgements({ records, nodeOf, log }),
      news: createToldNews({ records, nodeOf }),
      ...{ clock, log, controllerId: "c1", clusterUid: async () => (await store.identity()).clusterUid },
    }),
  });
  onTestFinished(() => hub.close());
  const api = await serveApi(world, { details: registry.details });
  onTestFinished(() => api.close());

  return {
    world,
    registry,
    address: api.address,
    /** An agent on that machine, with that state directory, which asks for the name of a node as often as it is told to. */
    agent(node: string, machine: string, state = "first") {
      const life = `${machine}-${state}`;
      const instance = `agent-${life}`;
      const dialled = hub.agent({ node, instance });
      const header = {
        ...{ name: node, instance, machineId: machine, bootId: `boot-${machine}`, journalUid: `journal-${life}` },
        verificationScope: VerificationScope.VERIFICATION_SCOPE_HOST,
      };
      return {
        ...dialled,
        async ask(plugins: readonly PluginFingerprint[] = [half(node)]): Promise<void> {
          await dialled.link.register({ header, plugins: [...plugins] });
          // The stream is a link only once the answer has left.
          while (registry.get(node)?.linked !== true) await new Promise(setImmediate);
        },
      };
    },
  };
};
