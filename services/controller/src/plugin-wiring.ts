/** A part of the composition root: how controller plugins are reached and driven. */
import path from "node:path";
import type { CallReport } from "@holdfast/csi/csi-exchange";
import { createPluginAdmission, type PluginAdmission } from "@holdfast/csi/plugin-admission";
import { openPluginBindings } from "@holdfast/csi/plugin-bindings";
import { createPluginDirectory, type PluginDirectory } from "@holdfast/csi/plugin-directory";
import { createPluginMetrics } from "@holdfast/csi/plugin-metrics";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Lifecycle } from "@holdfast/shared/lifecycle";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import type { PluginCallsView } from "./api/plugin/convert-plugin-calls.ts";
import type { ControllerConfig } from "./config.ts";
import { readCode } from "./domain/plugin/plugin-profile.ts";
import type { OtherControllers } from "./gate/controller-words.ts";
import { createLeftCalls, type LeftCalls } from "./gate/left-calls.ts";
import type { VettedStoreGate } from "./gate/store-gate.ts";
import { createPluginCatalogue } from "./nodes/plugin-catalogue.ts";
import { controllerInstances } from "./plugins/controller-instances.ts";
import { type ControllerPluginsOptions, createControllerPlugins } from "./plugins/controller-plugins.ts";
import { createGates } from "./plugins/gates.ts";
import { createHalvesOnNodes } from "./plugins/halves-on-nodes.ts";
import { createPluginInstances } from "./plugins/plugin-instances.ts";
import { createPluginsBeside } from "./plugins/plugins-beside.ts";
import { pluginsSettled } from "./plugins/plugins-settled.ts";
import { type AgentChannels, createRelayLines } from "./plugins/relay-transport.ts";
import type { Ids, Nodes, PluginCatalogue, PluginProfiles, Store } from "./ports.ts";
import { createPluginDrivers, type PluginDrivers } from "./reconcile/plugin/plugin-drivers.ts";
import { createPluginGovernor, type PluginGovernor } from "./reconcile/plugin/plugin-governor.ts";
import { createControllerGates } from "./records/controller-gates.ts";
import { createSharerRecords } from "./records/sharer-records.ts";
import type { StateDir } from "./state-dir.ts";

export interface PluginParts {
  readonly directory: PluginDirectory;
  readonly plugins: ReturnType<typeof createControllerPlugins>;
  readonly governor: PluginGovernor;
  readonly drivers: PluginDrivers;
  /** undefined: no other controller can use the store. */
  readonly controllers: OtherControllers | undefined;
  readonly left: LeftCalls;
  /** Resolves when those that are there have told who they are, or soon. */
  settled(signal: AbortSignal): Promise<void>;
  /** `waiting`: calls that wait for their turn, which the reconciler knows. */
  callsOf(waiting: (plugin: string) => number): (plugin: string) => PluginCallsView;
  readonly catalogue: PluginCatalogue;
  readonly admission: PluginAdmission;
}

export interface PluginPartsDeps
  extends Omit<ControllerPluginsOptions, "instances" | "gates" | "announcedByNodes" | "remembered" | "guide" | "log"> {
  readonly lifecycle: Pick<Lifecycle, "start">;
  readonly controllerId: string;
  /** This controller, in this life, and which of its own lives are proved to be over. */
  readonly lives: Pick<StateDir, "issuer" | "isFormerLife" | "incarnation" | "calls">;
  readonly store: Pick<Store, "kind" | "get" | "list" | "commit" | "identity">;
  readonly config: Pick<ControllerConfig, "pluginDir" | "stateDir">;
  readonly metrics: Metrics;
  readonly nodes: Nodes;
  readonly streams: AgentChannels;
  readonly profiles: PluginProfiles;
  /** Asked when a call is made: the gate is made after the plugins. */
  readonly gate: () => Pick<VettedStoreGate, "state" | "look" | "signOff">;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly tracing: Tracing;
  readonly log: Logger;
  readonly onCall: (report: CallReport) => void;
  readonly signal: AbortSignal;
}

export const wirePlugins = async (deps: PluginPartsDeps): Promise<PluginParts> => {
  const { lifecycle, controllerId, lives, config, nodes, profiles, gate, clock, ids, log, tracing, onCall, signal } =
    deps;
  const admission = createPluginAdmission({
    bindings: openPluginBindings(path.join(config.stateDir, "plugin-bindings.json")),
    acceptWith: (plugin, socketPath) =>
      `holdfast plugin accept ${plugin} ${socketPath} --reason <why>, asked of controller ${controllerId}`,
    log,
  });
  const watched = { dir: config.pluginDir, role: "controller", admission } as const;
  const lowestGen = () => gate().state().vetting.gen;
  const left = createLeftCalls({ ...deps, ...lives, vettingUid: () => gate().state().vetting.uid });
  const { notesOf } = left;
  const directory = createPluginDirectory({ ...watched, log, tracing, clock, signal, onCall, lowestGen, notesOf });
  createPluginMetrics(deps.metrics, directory);
  await lifecycle.start("plugins", () => () => directory.close());
  const identity = { role: "controller", name: controllerId } as const;
  const lines = createRelayLines({
    streams: deps.streams,
    identity,
    log,
    clock,
    vetting: () => gate().state().vetting,
  });
  const halves = createHalvesOnNodes(nodes);
  const governor = createPluginGovernor({
    allowed: (plugin) => drivers.shareOf(plugin, profiles.of(plugin)),
    // Asked when a call is made: the instances are made after it.
    current: (plugin) => instances.current({ plugin }),
    clock,
    random: ids.random,
    log,
    signal,
  });
  const instances = createPluginInstances({
    directory,
    halves,
    lines,
    clock,
    tracing,
    onCall,
    guide: governor,
    reading: (plugin, method, code) => readCode(profiles.of(plugin), method, code),
    besideControllerOnly: (plugin) => profiles.of(plugin).controllerPlacement === "beside-controller",
    reach: (plugin) => profiles.of(plugin).reach,
  });
  const catalogue = createPluginCatalogue({
    nodes,
    controllerId,
    beside: () => controllerInstances(directory),
    onChangeBeside: directory.onChange,
  });
  /** Of several versions at once none speaks for the others. */
  const remembered = (plugin: string) => {
    const [version = "", ...others] = catalogue.versions(plugin);
    return others.length > 0 ? {} : profiles.remembered(plugin, version);
  };
  const plugins = createControllerPlugins({
    ...deps,
    instances,
    gates: createGates(directory, lines),
    announcedByNodes: halves.announced,
    remembered,
    guide: governor,
  });

  profiles.onChange((plugin) => {
    governor.changed(plugin);
    instances.reconsider(plugin);
    drivers.reconsider(plugin);
  });
  // They are told at the end, too, when every other signal is aborted.
  const told = { ...deps, signal: AbortSignal.any([]) };
  const alone = deps.store.kind === "sqlite";
  const drivers = createPluginDrivers({
    sharers: alone ? undefined : createSharerRecords(told),
    ...lives,
    allowed: profiles.of,
    reachable: () => instances.names().filter((plugin) => instances.current({ plugin }) !== undefined),
    clock,
    log,
    signal,
  });
  const beside = createPluginsBeside(directory);
  beside.onNew(() => gate().look());
  // The word first: one that is left behind by a life which is on no list of controllers would look like that of one which is paused.
  const signOff = async (): Promise<void> => {
    await gate().signOff();
    await drivers.signOff();
  };
  return {
    drivers: { ...drivers, signOff },
    controllers: alone
      ? undefined
      : {
          ...createControllerGates(told),
          ...lives,
          firstLife: lives.incarnation === 1,
          plugins: beside.names,
          isAway: drivers.isAway,
        },
    left,
    directory,
    admission,
    settled: (until) => pluginsSettled(directory, clock, until),
    plugins,
    governor,
    catalogue,
    callsOf: (waiting) => (plugin) => {
      const now = instances.current({ plugin });
      const held = now === undefined ? "" : (governor.held(plugin, now.id) ?? "");
      const load = governor.load(plugin);
      // One that is gone is told of with the nodes and the sockets.
      const silent = load.silent.filter(({ id }) => instances.current({ plugin, via: id }) !== undefined);
      return { ...load, silent, waiting: waiting(plugin), held, at: now?.at };
    },
  };
};
