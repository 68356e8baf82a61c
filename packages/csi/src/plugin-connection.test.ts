import { systemClock } from "@holdfast/shared/async/clock";
import { createLogger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createPluginConnection, type PluginConnection, type PluginConnectionOptions } from "./plugin-connection.ts";
import type { PluginPhase } from "./plugin-status.ts";
import {
  makeSocketDirectory,
  type SocketDirectory,
  startTinyPlugin,
  type TinyPlugin,
  type TinyPluginOptions,
} from "./testing/tiny-plugin.ts";

let home: SocketDirectory;
let stop: AbortController;
const lines: string[] = [];
const plugins = new Set<TinyPlugin>();

beforeEach(async () => {
  home = await makeSocketDirectory();
  stop = new AbortController();
  lines.length = 0;
});

afterEach(async () => {
  stop.abort(new Error("the test is over"));
  for (const plugin of plugins) await plugin.kill();
  plugins.clear();
  await home[Symbol.asyncDispose]();
});

const start = async (options: Partial<TinyPluginOptions> = {}): Promise<TinyPlugin> => {
  const plugin = await startTinyPlugin({ socketPath: home.socketPath, ...options });
  plugins.add(plugin);
  return plugin;
};

const connect = (options: Partial<PluginConnectionOptions> = {}): PluginConnection =>
  createPluginConnection({
    socketPath: home.socketPath,
    role: "monolith",
    log: createLogger({ level: "debug", destination: { write: (line) => void lines.push(line) } }),
    tracing: createTracing("test"),
    clock: systemClock,
    signal: stop.signal,
    ...options,
  });

const reached = (connection: PluginConnection, phase: PluginPhase): Promise<void> =>
  new Promise((resolve) => {
    if (connection.status().phase === phase) return resolve();
    const off = connection.onChange((status) => {
      if (status.phase !== phase) return;
      off();
      resolve();
    });
  });

const signal = (): AbortSignal => stop.signal;

describe("a plugin connection", () => {
  it("waits for the socket, connects, and reads who is there before anything else", async () => {
    const connection = connect();
    expect(connection.status().phase).toBe("waiting");
    const plugin = await start();
    const facts = await connection.whenReady(signal());
    expect(facts).toMatchObject({
      name: "tiny.example.com",
      version: "1.0.0",
      role: "monolith",
      plugin: { CONTROLLER_SERVICE: "yes", GROUP_CONTROLLER_SERVICE: "no" },
      controller: { CREATE_DELETE_VOLUME: "yes", PUBLISH_UNPUBLISH_VOLUME: "yes", CLONE_VOLUME: "no" },
      node: { STAGE_UNSTAGE_VOLUME: "yes", EXPAND_VOLUME: "no" },
      group: { CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT: "no" },
      nodeInfo: { nodeId: "node-1", maxVolumes: 7, topology: { zone: "a" } },
    });
    expect(plugin.calls).toEqual([
      "Probe",
      "GetPluginInfo",
      "GetPluginCapabilities",
      "ControllerGetCapabilities",
      "NodeGetCapabilities",
      "NodeGetInfo",
    ]);
    await connection.close();
    expect(connection.status()).toMatchObject({ phase: "closed" });
  });

  it("connects again by itself after a kill, and reads everything anew before the next call", async () => {
    const first = await start();
    const connection = connect();
    await connection.whenReady(signal());
    await first.kill();
    plugins.delete(first);
    await reached(connection, "waiting");
    const outcome = await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() });
    expect(outcome).toMatchObject({ outcome: "unknown", failure: { code: "UNAVAILABLE", sent: false } });

    const second = await start({ controllerCaps: [1], handlers: { deleteVolume: async () => ({}) } });
    const facts = await connection.whenReady(signal());
    expect(facts.controller.PUBLISH_UNPUBLISH_VOLUME).toBe("no");
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toEqual({
      outcome: "done",
      value: {},
    });
    expect(second.calls).toEqual([
      "Probe",
      "GetPluginInfo",
      "GetPluginCapabilities",
      "ControllerGetCapabilities",
      "NodeGetCapabilities",
      "NodeGetInfo",
      "DeleteVolume",
    ]);
  });
});
