import { mkdir } from "node:fs/promises";
import path from "node:path";
import { ControllerDefinition } from "@holdfast/shared/gen/csi/v1/csi";
import { startSimBackend, startSimPlugin } from "@holdfast/sim-plugin/processes";
import { createChannel, createClient } from "nice-grpc";
import { volumeName } from "../product.ts";
import { noPluginTimes, type PluginTimes, readCallTimes } from "../support/call-times.ts";
import { mountsBelow } from "../support/mount-root.ts";
import { pluginSettings } from "../support/plugin-settings.ts";
import type { FloorProcesses } from "./floor-processes.ts";
import { type FloorVolume, pathsOf } from "./floor-volumes.ts";
import { createVolumeMessage, floorNode } from "./messages.ts";

/** What the floor calls: two sockets, and what it is to tell them of its volumes. */
export interface FloorPlugins {
  readonly controller: string;
  readonly node: string;
  readonly volumes: readonly FloorVolume[];
  callTimes(): Promise<PluginTimes>;
  readonly pids: Readonly<Record<string, readonly number[]>>;
  stop(): Promise<void>;
}

const context = { "sim.holdfast.dev/pool": "pool-1", "sim.holdfast.dev/made": "2026-01-01T00:00:00.000Z" };

/** One process that answers at once and does nothing: as little as a call can cost. */
export const startStillPlugin = async (
  dir: string,
  count: number,
  start: FloorProcesses["start"],
): Promise<FloorPlugins> => {
  const socket = path.join(dir, "floor.sock");
  const { pid } = await start("plugin", socket);
  const volumes = Array.from({ length: count }, (_, index) => {
    const name = volumeName(index);
    return { name, id: `sim-${name}`, context, ...pathsOf("/run/holdfast/mounts", index) };
  });
  return {
    controller: socket,
    node: socket,
    volumes,
    callTimes: async () => noPluginTimes,
    pids: { plugins: [pid] },
    stop: async () => undefined,
  };
};

/**
 * The plugins that the product has, in processes of their own, which mount for real. What they take inside their calls is taken off
 * on both sides; what their work does to whoever called (other things in the caches, a processor that is busy) is then on both sides too.
 */
export const startWorkingPlugins = async (dir: string, count: number): Promise<FloorPlugins> => {
  const times = path.join(dir, "times");
  const controllerDir = path.join(dir, "cp");
  const nodeDir = path.join(dir, "np");
  for (const each of [times, controllerDir, nodeDir]) await mkdir(each);
  const root = await mountsBelow();
  const env = { ...process.env, ...pluginSettings(times) };
  const backend = await startSimBackend({ dir });
  const common = { backend: backend.socketPath, env };
  const controller = await startSimPlugin({ ...common, dir: controllerDir, role: "controller" });
  const dataDir = path.join(dir, "data");
  const node = await startSimPlugin({
    ...common,
    dir: nodeDir,
    role: "node",
    node: floorNode,
    dataDir,
    realMounts: true,
  });

  const channel = createChannel(`unix://${controller.socketPath}`);
  const client = createClient(ControllerDefinition, channel);
  const volumes: FloorVolume[] = [];
  for (let index = 0; index < count; index += 1) {
    const name = volumeName(index);
    const { volume } = await client.createVolume(createVolumeMessage(name));
    const paths = pathsOf(root.dir, index);
    // Once and for all: what the product makes and removes around each call is not the floor's.
    for (const each of [paths.staging, path.dirname(paths.target)]) await mkdir(each, { recursive: true });
    volumes.push({ name, id: volume?.volumeId ?? "", context: volume?.volumeContext ?? {}, ...paths });
  }
  channel.close();

  return {
    controller: controller.socketPath,
    node: node.socketPath,
    volumes,
    callTimes: () => readCallTimes(times),
    pids: { "controller plugin": [controller.pid], "node plugin": [node.pid], backend: [backend.pid] },
    stop: async () => {
      for (const each of [node, controller, backend]) await each.stop();
      await root.remove();
    },
  };
};
