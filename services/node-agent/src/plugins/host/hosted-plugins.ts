/**
 * All plugins of this host as those see them who make calls: hosted instances in the order of the registry, and behind them
 * what merely shows a socket.
 */
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { throwIfAborted } from "@holdfast/shared/async/signals";
import { createPathMap, type PathMap, sameTree } from "../../domain/path-map.ts";
import { entryOfConnection, type PluginType, serves, stackOf } from "../../domain/plugin-registry.ts";
import type { PluginHost } from "./plugin-host.ts";
import type { StaticPlugins } from "./static-plugins.ts";

export interface HostedPlugins {
  /** The newest instance that is ready, serves that half, and is not being stopped. */
  get(plugin: string, type: PluginType): PluginConnection | undefined;
  /**
   * The one for a controller's call: the controller half, or the one socket of a plugin that has both halves there. The node half of a
   * plugin whose controller half is known here stands in for it never, for the secrets of the other are not its own.
   */
  forController(plugin: string): PluginConnection | undefined;
  /** Resolves as soon as there is one; rejects when aborted. */
  whenReady(plugin: string, type: PluginType, signal: AbortSignal): Promise<PluginConnection>;
  /** Called after anything that may change what `get` answers; the returned function takes it back. */
  onChange(listener: () => void): () => void;
  /** How that instance sees the agent's root. */
  pathsOf(connection: Pick<PluginConnection, "instanceId" | "pin" | "socketPath">): PathMap;
  close(): void;
}

export function createHostedPlugins(options: {
  readonly directory: Pick<PluginDirectory, "list" | "onChange">;
  readonly host: Pick<PluginHost, "registry" | "drained" | "connectionOf" | "onChange">;
  readonly statics: Pick<StaticPlugins, "publishDirOf">;
  readonly rootDir: string;
}): HostedPlugins {
  const { directory, host, statics, rootDir } = options;
  const changes = createNotifier();
  const listeners = createEmitter();
  const tell = (): void => {
    changes.notify();
    listeners.tell();
  };
  const stops = [directory.onChange(tell), host.onChange(tell)];

  const ready = (connection: PluginConnection | undefined): connection is PluginConnection =>
    connection?.status().phase === "ready";

  const get = (plugin: string, type: PluginType): PluginConnection | undefined => {
    for (const { instance } of stackOf(host.registry(), type, plugin)) {
      const connection = host.connectionOf(instance);
      if (!host.drained(instance) && ready(connection)) return connection;
    }
    return directory
      .list()
      .filter((connection) => entryOfConnection(host.registry(), connection) === undefined)
      .filter((connection) => serves(connection.role, type) && connection.status().facts?.name === plugin)
      .findLast(ready);
  };

  const hasControllerHalf = (plugin: string): boolean =>
    stackOf(host.registry(), "controller", plugin).length > 0 ||
    directory.list().some((one) => {
      const { name } = one.pin();
      return name === plugin && serves(one.role, "controller");
    });

  return {
    get,
    forController: (plugin) =>
      get(plugin, "controller") ?? (hasControllerHalf(plugin) ? undefined : get(plugin, "node")),
    async whenReady(plugin, type, signal) {
      for (;;) {
        throwIfAborted(signal);
        const version = changes.version();
        const found = get(plugin, type);
        if (found !== undefined) return found;
        await changes.wait(version, signal);
      }
    },
    onChange: listeners.on,
    pathsOf(connection) {
      const instance = entryOfConnection(host.registry(), connection)?.instance;
      if (instance !== undefined)
        return instance.hostFilesystem ? sameTree : createPathMap(rootDir, instance.publishDir);
      const publishDir = statics.publishDirOf(connection.socketPath);
      return publishDir === undefined ? sameTree : createPathMap(rootDir, publishDir);
    },
    close() {
      for (const stop of stops) stop();
      listeners.clear();
    },
  };
}
