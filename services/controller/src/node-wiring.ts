/** A part of the composition root: what concerns nodes and the plugins on them. */
import type { PluginAdmission } from "@holdfast/csi/plugin-admission";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ApiDeps } from "./api/api-deps.ts";
import { createLinkClaims } from "./api/claim/link-claims.ts";
import type { ControllerServices } from "./api/controller-services.ts";
import { createMemoryLog } from "./api/memory-log.ts";
import { createNodeService } from "./api/node/node-service.ts";
import type { PluginCallsView } from "./api/plugin/convert-plugin-calls.ts";
import { createPluginService } from "./api/plugin/plugin-service.ts";
import { createLinkVolumes } from "./api/volume/link-volumes.ts";
import type { CommandDeps } from "./commands/command-deps.ts";
import { createNodeCommands } from "./commands/node/node-commands.ts";
import type { NodePlaces } from "./commands/node/node-places.ts";
import { createPluginCommands } from "./commands/plugin/plugin-commands.ts";
import type { StatsQueries } from "./commands/volume/stats-model.ts";
import type { ControllerConfig } from "./config.ts";
import type { IndexEntry } from "./domain/store-types.ts";
import type { VolumeRecord } from "./domain/volume/volume.ts";
import { createAcknowledgements } from "./nodes/acknowledgements.ts";
import type { NodeAgentGateway } from "./nodes/agent-gateway.ts";
import { createControllerLinkService } from "./nodes/controller-link-service.ts";
import { createFencer } from "./nodes/fencer.ts";
import { createHealthSecrets } from "./nodes/health-secrets.ts";
import type { NodeRegistry } from "./nodes/node-registry-model.ts";
import type { NodeStore } from "./nodes/node-store.ts";
import type { AgentLink } from "./nodes/open-stream.ts";
import { createRenewals } from "./nodes/renewals.ts";
import { createTokenDesk } from "./nodes/token-desk.ts";
import { createToldNews } from "./nodes/told-news.ts";
import type { NodeView, PluginCatalogue, Store } from "./ports.ts";
import { createDrainKeeper } from "./reconcile/node/drain-keeper.ts";
import { createFenceKeeper } from "./reconcile/node/fence-keeper.ts";
import { createFencerKeeper } from "./reconcile/node/fencer-keeper.ts";
import { createMissedKeeper } from "./reconcile/plugin/missed-keeper.ts";
import { createPluginKeeper } from "./reconcile/plugin/plugin-keeper.ts";
import { tellPlugins } from "./reconcile/plugin/tell-plugins.ts";
import type { AuditRecords } from "./records/audit-records.ts";
import { nodeChangeKey } from "./records/changes.ts";
import { isSilent } from "./records/grant-facts.ts";
import type { PluginRecords } from "./records/plugin-records.ts";
import type { Secrets } from "./secrets/secrets.ts";
import type { TokenParts } from "./token-wiring.ts";

export interface NodeWiring {
  readonly controllerId: string;
  readonly config: Pick<ControllerConfig, "fencer" | "fencerAfter" | "fencerTimeout" | "pluginEmptyAfter" | "tlsDir">;
  readonly registry: NodeRegistry;
  readonly nodeStore: NodeStore;
  readonly pluginRecords: PluginRecords;
  readonly callsOf: (plugin: string) => PluginCallsView;
  readonly catalogue: PluginCatalogue;
  readonly admission: PluginAdmission;
  readonly store: Pick<Store, "count" | "format">;
  readonly places: NodePlaces;
  readonly command: CommandDeps;
  readonly audit: AuditRecords;
  readonly agents: NodeAgentGateway;
  readonly tokens: TokenParts;
  readonly wake: (key: string, hurry: boolean) => void;
  readonly secrets: Pick<Secrets, "resolve">;
  readonly stats: StatsQueries;
  readonly api: ApiDeps;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface NodeServices extends Pick<ControllerServices, "nodes" | "plugins"> {
  /** What agents ask over their streams. */
  readonly link: AgentLink;
  /** Tells the agents that have the volume. */
  readonly policyChanged: (volume: VolumeRecord) => void;
  /** What goes on in the background, by name. */
  background(): readonly (readonly [string, Promise<unknown>])[];
}

/** Between two messages of a watch about one plugin. */
const restMs = 250;

export const wireNodes = (deps: NodeWiring): NodeServices => {
  const { controllerId, registry, nodeStore, pluginRecords, command, api, log, signal } = deps;
  const { records } = command;
  const { catalogue, store } = deps;
  const count = async (entry: IndexEntry): Promise<number> => (await store.count([entry]))[0] ?? 0;
  const life = command.ids.uuid();
  const nodeLog = createMemoryLog(life);
  registry.onChange(nodeLog.note);
  const pluginLog = createMemoryLog(life);
  catalogue.onChange(pluginLog.note);
  pluginRecords.onChange(pluginLog.note);
  const keeper = createPluginKeeper({
    catalogue,
    records: pluginRecords,
    count,
    emptyForMs: deps.config.pluginEmptyAfter,
    clock: api.clock,
    log,
    signal,
  });
  const pluginCommands = createPluginCommands({
    records: pluginRecords,
    catalogue,
    count,
    format: deps.store.format,
    ambiguous: (plugin) => {
      const { ambiguous, reason } = command.plugins.facts(plugin);
      return ambiguous === true ? reason : "";
    },
  });
  const missed = createMissedKeeper({
    catalogue,
    records: pluginRecords,
    nodes: registry,
    clock: api.clock,
    log,
    signal,
  });
  const drains = createDrainKeeper({
    nodes: registry,
    records,
    clock: api.clock,
    log,
    signal,
    changed: nodeLog.note,
  });
  const fences = createFenceKeeper({
    nodes: registry,
    records,
    agents: deps.agents,
    gate: command.gate,
    wake: deps.wake,
    clock: api.clock,
    log,
    signal,
    changed: nodeLog.note,
  });

  const commands = createNodeCommands({ ...command, nodes: registry, audit: deps.audit, profiles: pluginRecords });
  const nodeOf = (node: string) => registry.get(node)?.record;
  const { fencer, fencerAfter, fencerTimeout } = deps.config;
  const fencers =
    fencer === undefined
      ? undefined
      : createFencerKeeper({
          fencer: createFencer({ target: fencer, timeoutMs: fencerTimeout }),
          nodes: registry,
          records,
          gate: command.gate,
          fence: ({ name, nodeEpoch }, words) =>
            commands.fenceNode(
              {
                ...{ name, dryRun: false, requestId: "", expectedNodeEpoch: nodeEpoch },
                ...{ reason: "node_loss: fence", evidence: { kind: "power-off", words } },
              },
              { who: `fencer/${controllerId}`, why: "FenceNode" },
            ),
          afterMs: fencerAfter,
          clock: api.clock,
          random: command.ids.random,
          log,
          signal,
          changed: nodeLog.note,
        });

  return {
    nodes: createNodeService({
      places: deps.places,
      ...api,
      nodes: registry,
      stats: deps.stats,
      remarks: (node) => {
        const details = registry.details(node);
        return (
          details && {
            ...details,
            overdue: drains.overdue(node),
            fenceWaits: fences.waitsFor(node),
            fencer: fencers?.says(node),
          }
        );
      },
      commands,
      keyOfNode: nodeChangeKey,
      log: nodeLog,
    }),
    plugins: createPluginService({
      scopeOf: api.scopeOf,
      commands: pluginCommands,
      callsOf: deps.callsOf,
      granted: api.granted,
      admission: deps.admission,
      unsigned: deps.tokens.signer.trouble,
      log,
      tracing: api.tracing,
      changes: pluginLog,
      rest: (until) => api.clock.sleep(restMs, until),
    }),
    link: {
      ...createControllerLinkService({
        registry,
        acknowledgements: createAcknowledgements({ records, nodeOf, log }),
        news: createToldNews({ records, nodeOf }),
        clock: api.clock,
        log,
        controllerId,
        clusterUid: nodeStore.clusterUid,
      }),
      ...createLinkClaims(api),
      ...createLinkVolumes({ ...api, nodeLost: (node) => lostWords(registry.get(node)), plugins: command.plugins }),
      ...createHealthSecrets({ nodes: registry, profiles: pluginRecords, secrets: deps.secrets }),
      issueTokens: createTokenDesk({ ...command, ...deps.tokens }),
    },
    ...createRenewals({ ...deps, profiles: pluginRecords, nodes: registry }),
    background: () => [
      ["looking for missing links of nodes", registry.watchLinks(signal)],
      ["following drains", drains.run()],
      ["following fences", fences.run()],
      ...(fencers === undefined ? [] : [["asking the fencer", fencers.run()] as const]),
      ["keeping what is known of plugins", keeper.run()],
      ["telling of the plugins", tellPlugins({ commands: pluginCommands, clock: api.clock, log, signal })],
      ["missing the instances of plugins that went", missed.run()],
    ],
  };
};

const lostWords = (view: NodeView | undefined): string => {
  if (view === undefined) return "no record of it is left";
  return isSilent(view) ? "nothing is heard of its agent" : "";
};
