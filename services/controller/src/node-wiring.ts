/** A part of the composition root: what concerns nodes and the plugins on them. */
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ApiDeps } from "./api/api-deps.ts";
import type { ControllerServices } from "./api/controller-services.ts";
import type { PluginCallsView } from "./api/convert-plugin-calls.ts";
import { createLinkClaims } from "./api/link-claims.ts";
import { createNodeService } from "./api/node-service.ts";
import { createPluginService } from "./api/plugin-service.ts";
import type { CommandDeps } from "./commands/command-deps.ts";
import { createNodeCommands } from "./commands/node-commands.ts";
import { createPluginCommands } from "./commands/plugin-commands.ts";
import type { ControllerConfig } from "./config.ts";
import { createAcknowledgements } from "./nodes/acknowledgements.ts";
import { checkCaller, createControllerLinkService } from "./nodes/controller-link-service.ts";
import type { NodeRegistry } from "./nodes/node-registry.ts";
import type { NodeStore } from "./nodes/node-store.ts";
import { controllerInstances } from "./plugins/controller-instances.ts";
import { createDrainKeeper } from "./reconcile/drain-keeper.ts";
import { nodeChangeKey } from "./records/changes.ts";
import type { PluginRecords } from "./records/plugin-records.ts";

export interface NodeWiring {
  readonly config: ControllerConfig;
  readonly controllerId: string;
  readonly registry: NodeRegistry;
  readonly nodeStore: NodeStore;
  readonly pluginRecords: PluginRecords;
  readonly directory: PluginDirectory;
  readonly callsOf: (plugin: string) => PluginCallsView;
  readonly command: CommandDeps;
  readonly api: ApiDeps;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface NodeServices extends Pick<ControllerServices, "nodes" | "plugins" | "link"> {
  /** What goes on in the background, by name. */
  background(): readonly (readonly [string, Promise<unknown>])[];
}

export const wireNodes = (deps: NodeWiring): NodeServices => {
  const { config, controllerId, registry, nodeStore, pluginRecords, directory, command, api, log, signal } = deps;
  const { records } = command;
  const drains = createDrainKeeper({ nodes: registry, records, clock: api.clock, log, signal });

  return {
    nodes: createNodeService({
      ...api,
      nodes: registry,
      remarks: (node) => {
        const details = registry.details(node);
        return details && { ...details, overdue: drains.overdue(node) };
      },
      commands: createNodeCommands({ ...command, nodes: registry }),
      keyOfNode: nodeChangeKey,
    }),
    plugins: createPluginService({
      nodes: registry,
      controllerId,
      besideController: () => controllerInstances(directory),
      callsOf: deps.callsOf,
      records: pluginRecords,
      commands: createPluginCommands({ records: pluginRecords }),
      tracing: api.tracing,
    }),
    link: {
      ...createControllerLinkService({
        registry,
        acknowledgements: createAcknowledgements({
          records,
          nodeEpochOf: (node) => registry.get(node)?.record.nodeEpoch,
          log,
        }),
        log,
        controllerId,
        heartbeatMs: config.heartbeatInterval,
        clusterUid: nodeStore.clusterUid,
        controllerAddresses: () => [...(config.advertise === undefined ? [] : [config.advertise]), ...config.peers],
      }),
      ...createLinkClaims({ ...api, checkCaller }),
    },
    background: () => [
      ["looking for silent nodes", registry.watchSilence(signal)],
      ["following drains", drains.run()],
    ],
  };
};
