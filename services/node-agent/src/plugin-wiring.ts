/** A part of the composition root: the plugins that show a socket in the directory, and which of them may have their name. */
import path from "node:path";
import type { CallReport } from "@holdfast/csi/csi-exchange";
import { createPluginAdmission, type PluginAdmission } from "@holdfast/csi/plugin-admission";
import { openPluginBindings } from "@holdfast/csi/plugin-bindings";
import { createPluginDirectory, type PluginDirectory } from "@holdfast/csi/plugin-directory";
import { createPluginMetrics } from "@holdfast/csi/plugin-metrics";
import { systemClock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import type { AgentConfig } from "./config.ts";
import { createHealthSecrets, type HealthSecretsOptions } from "./controller-link/health-secrets.ts";
import { readStaticPlugins, type StaticPlugins } from "./plugins/host/static-plugins.ts";
import { createStorageHealth, keepAsking, type StorageHealth } from "./plugins/storage-health.ts";

export interface FoundPlugins {
  readonly statics: StaticPlugins;
  readonly directory: PluginDirectory;
  readonly admission: PluginAdmission;
  readonly storage: StorageHealth;
}

export async function wireFoundPlugins(deps: {
  readonly config: AgentConfig;
  readonly log: Logger;
  readonly tracing: Tracing;
  readonly metrics: Metrics;
  readonly signal: AbortSignal;
  readonly onCall: (report: CallReport) => void;
  readonly lowestGen: () => number;
  /** With whom a stream is registered now. */
  readonly controllers: HealthSecretsOptions["controllers"];
}): Promise<FoundPlugins> {
  const { config, log, tracing, metrics, signal, onCall, lowestGen } = deps;
  const { pluginDir, stateDir, localListen } = config;
  const statics = await readStaticPlugins(pluginDir);
  const admission = createPluginAdmission({
    bindings: openPluginBindings(path.join(stateDir, "plugin-bindings.json")),
    listed: (socketPath, plugin) => statics.describe(socketPath)?.expectedName === plugin,
    pinnedTo: statics.pinnedTo,
    acceptWith: (plugin, socketPath) =>
      localListen === undefined
        ? `name it in plugins.json with the id ${plugin}, and restart the agent`
        : `holdfast plugin accept ${plugin} ${socketPath} --agent ${localListen} --reason <why>`,
    log,
  });
  const directory = createPluginDirectory({
    dir: pluginDir,
    role: "node",
    node: config.node,
    describe: statics.describe,
    healthIntervalMs: config.pluginHealthInterval,
    admission,
    log,
    tracing,
    clock: systemClock,
    signal,
    onCall,
    lowestGen,
  });
  createPluginMetrics(metrics, directory);
  const { node, statsTimeout: deadlineMs } = config;
  const secretsOf = createHealthSecrets({ node, controllers: deps.controllers, deadlineMs, log, signal });
  const storage = createStorageHealth({ list: directory.list, secretsOf, deadlineMs, signal });
  keepAsking(storage, { intervalMs: config.statsMaxAge, clock: systemClock, signal }).catch((error: unknown) => {
    if (!signal.aborted) log.error("plugins are not asked about their storage any more", { error });
  });
  return { statics, directory, admission, storage };
}
