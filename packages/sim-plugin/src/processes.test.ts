import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  ControllerDefinition,
  VolumeCapability_AccessMode_Mode as Mode,
  NodeDefinition,
} from "@holdfast/shared/gen/csi/v1/csi";
import { type Channel, createChannel, createClient } from "nice-grpc";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type SimBackendProcess, type SimPluginProcess, startSimBackend, startSimPlugin } from "./processes.ts";

const volumeCapability = {
  mount: { fsType: "", mountFlags: [], volumeMountGroup: "" },
  accessMode: { mode: Mode.SINGLE_NODE_WRITER },
};

let dir: string;
let backend: SimBackendProcess;
let plugins: SimPluginProcess[];
let channels: Channel[];

const start = async (role: "controller" | "node", node?: string): Promise<SimPluginProcess> => {
  const home = path.join(dir, node ?? "controller");
  await mkdir(home, { recursive: true });
  const plugin = await startSimPlugin({
    dir: home,
    role,
    backend: backend.socketPath,
    ...(node === undefined ? {} : { node }),
  });
  plugins.push(plugin);
  return plugin;
};

const open = (plugin: SimPluginProcess): Channel => {
  const channel = createChannel(`unix://${plugin.socketPath}`);
  channels.push(channel);
  return channel;
};

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-sim-"));
  plugins = [];
  channels = [];
  backend = await startSimBackend({ dir, keepState: true });
});

afterEach(async () => {
  for (const channel of channels) channel.close();
  for (const plugin of plugins) await plugin.stop();
  await backend.stop();
  await rm(dir, { recursive: true, force: true });
});

test("one backend judges the order of calls over hosts", async () => {
  const controller = createClient(ControllerDefinition, open(await start("controller")));
  const node = createClient(NodeDefinition, open(await start("node", "node-a")));
  const { volume } = await controller.createVolume({ name: "one", volumeCapabilities: [volumeCapability] });
  const { volumeId = "", volumeContext = {} } = volume ?? {};
  const { publishContext } = await controller.controllerPublishVolume({
    volumeId,
    nodeId: "node-a",
    volumeCapability,
    volumeContext,
  });
  await node.nodeStageVolume({ volumeId, publishContext, volumeContext, volumeCapability, stagingTargetPath: dir });
  await expect(controller.controllerUnpublishVolume({ volumeId, nodeId: "node-a" })).rejects.toMatchObject({ code: 9 });
  expect(await backend.client.violations()).toMatchObject([
    { rule: "detach-while-in-use", volume: volumeId, node: "node-a" },
  ]);
  const methods = (await backend.client.record()).map(({ seq, endSeq, method }) => [seq, endSeq, method]);
  expect(methods).toEqual([
    [1, 2, "CreateVolume"],
    [3, 4, "ControllerPublishVolume"],
    [5, 6, "NodeStageVolume"],
    [7, 8, "ControllerUnpublishVolume"],
  ]);
});

test("a plugin killed by a fault leaves its work to the backend and comes back", async () => {
  const plugin = await start("controller");
  await backend.client.setFaults([{ method: "CreateVolume", die: "after" }]);
  const controller = createClient(ControllerDefinition, open(plugin));
  await expect(controller.createVolume({ name: "one", volumeCapabilities: [volumeCapability] })).rejects.toMatchObject({
    code: 14,
  });
  expect(await plugin.exited).toBe("SIGKILL");
  const again = createClient(ControllerDefinition, open(await start("controller")));
  const { volume } = await again.createVolume({ name: "one", volumeCapabilities: [volumeCapability] });
  expect([...(await backend.client.state()).volumes.keys()]).toEqual([volume?.volumeId]);
  expect((await backend.client.record()).map(({ reply, done }) => [reply, done])).toEqual([
    ["died", true],
    ["sent", true],
  ]);
});

test("the backend's state outlives its process, and its plugins go with it", async () => {
  const plugin = await start("controller");
  const controller = createClient(ControllerDefinition, open(plugin));
  const { volume } = await controller.createVolume({
    name: "one",
    volumeCapabilities: [volumeCapability],
    capacityRange: { requiredBytes: 5n << 30n },
  });
  backend.kill("SIGKILL");
  await backend.exited;
  expect(await plugin.exited).toBe(1);
  backend = await startSimBackend({ dir, keepState: true });
  const state = await backend.client.state();
  expect(state.volumes.get(volume?.volumeId ?? "")).toMatchObject({ name: "one", capacity: 5n << 30n });
});
