/** A socket directory, plugins on it and connections to it, all gone when the test is over. */
import { systemClock } from "@holdfast/shared/async/clock";
import { createLogger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import { afterEach, beforeEach } from "vitest";
import { createPluginConnection, type PluginConnection, type PluginConnectionOptions } from "../plugin-connection.ts";
import type { PluginPhase, PluginStatus } from "../plugin-status.ts";
import {
  makeSocketDirectory,
  type SocketDirectory,
  startTinyPlugin,
  type TinyPlugin,
  type TinyPluginOptions,
} from "./tiny-plugin.ts";

export interface ConnectionFixture {
  readonly home: () => SocketDirectory;
  /** Aborted when the test is over. */
  readonly signal: () => AbortSignal;
  /** What was logged, as it would be written. */
  readonly lines: readonly string[];
  start(options?: Partial<TinyPluginOptions>): Promise<TinyPlugin>;
  connect(options?: Partial<PluginConnectionOptions>): PluginConnection;
  log(): PluginConnectionOptions["log"];
}

export function useConnectionFixture(): ConnectionFixture {
  let home: SocketDirectory | undefined;
  let stop = new AbortController();
  const lines: string[] = [];
  const plugins = new Set<TinyPlugin>();
  const connections = new Set<PluginConnection>();

  beforeEach(async () => {
    home = await makeSocketDirectory();
    stop = new AbortController();
    lines.length = 0;
  });

  afterEach(async () => {
    stop.abort(new Error("the test is over"));
    for (const connection of connections) await connection.close();
    for (const plugin of plugins) await plugin.kill();
    connections.clear();
    plugins.clear();
    await home?.[Symbol.asyncDispose]();
  });

  const here = (): SocketDirectory => {
    if (home === undefined) throw new Error("only within a test");
    return home;
  };
  const log = () => createLogger({ level: "debug", destination: { write: (line) => void lines.push(line) } });

  return {
    home: here,
    signal: () => stop.signal,
    lines,
    log,
    async start(options = {}) {
      const plugin = await startTinyPlugin({ socketPath: here().socketPath, ...options });
      plugins.add(plugin);
      return plugin;
    },
    connect(options = {}) {
      const connection = createPluginConnection({
        socketPath: here().socketPath,
        role: "monolith",
        log: log(),
        tracing: createTracing("test"),
        clock: systemClock,
        signal: stop.signal,
        ...options,
      });
      connections.add(connection);
      return connection;
    },
  };
}

/** Resolves once the phase is reached, or was when it was asked. */
export function reached(connection: PluginConnection, phase: PluginPhase): Promise<PluginStatus> {
  return new Promise((resolve) => {
    const settle = (status: PluginStatus): boolean => {
      if (status.phase !== phase) return false;
      resolve(status);
      return true;
    };
    if (settle(connection.status())) return;
    const off = connection.onChange((status) => {
      if (settle(status)) off();
    });
  });
}
