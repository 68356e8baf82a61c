import { mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  ControllerDefinition,
  IdentityDefinition,
  VolumeCapability_AccessMode_Mode as Mode,
  NodeDefinition,
} from "@holdfast/shared/gen/csi/v1/csi";
import { createChannel, createClient } from "nice-grpc";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createSimPlugin, type SimPlugin } from "./sim-plugin.ts";

let dir: string;
let plugin: SimPlugin;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-sim-"));
  plugin = await createSimPlugin({ role: "monolith", node: "node-a", socket: path.join(dir, "csi.sock") });
});

afterEach(async () => {
  await plugin.close();
  await rm(dir, { recursive: true, force: true });
});

const volumeCapability = {
  mount: { fsType: "", mountFlags: [], volumeMountGroup: "" },
  accessMode: { mode: Mode.SINGLE_NODE_WRITER },
};

test("a volume goes from its making to its end", async () => {
  const channel = createChannel(`unix://${plugin.socket}`);
  const identity = createClient(IdentityDefinition, channel);
  const controller = createClient(ControllerDefinition, channel);
  const node = createClient(NodeDefinition, channel);

  expect((await identity.getPluginInfo({})).name).toBe("sim.holdfast.dev");
  expect((await identity.probe({})).ready).toBe(true);
  const { nodeId } = await node.nodeGetInfo({});
  const { volume } = await controller.createVolume({ name: "one", volumeCapabilities: [volumeCapability] });
  const volumeId = volume?.volumeId ?? "";
  const volumeContext = volume?.volumeContext ?? {};
  const { publishContext } = await controller.controllerPublishVolume({
    volumeId,
    nodeId,
    volumeCapability,
    volumeContext,
  });
  const stagingTargetPath = path.join(dir, "staging");
  const targetPath = path.join(dir, "target");
  await mkdir(stagingTargetPath);
  await node.nodeStageVolume({ volumeId, publishContext, volumeContext, volumeCapability, stagingTargetPath });
  await node.nodePublishVolume({
    volumeId,
    publishContext,
    volumeContext,
    volumeCapability,
    stagingTargetPath,
    targetPath,
  });
  expect((await stat(targetPath)).isDirectory()).toBe(true);
  expect(plugin.backend.state().publications.get(volumeId)).toHaveLength(1);
  await node.nodeUnpublishVolume({ volumeId, targetPath });
  await expect(stat(targetPath)).rejects.toMatchObject({ code: "ENOENT" });
  await node.nodeUnstageVolume({ volumeId, stagingTargetPath });
  await controller.controllerUnpublishVolume({ volumeId, nodeId });
  await controller.deleteVolume({ volumeId });

  expect(plugin.backend.violations()).toEqual([]);
  expect(plugin.backend.state().volumes.size).toBe(0);
  expect(plugin.backend.record().map(({ method, code }) => [method, code])).toEqual([
    ["GetPluginInfo", "OK"],
    ["Probe", "OK"],
    ["NodeGetInfo", "OK"],
    ["CreateVolume", "OK"],
    ["ControllerPublishVolume", "OK"],
    ["NodeStageVolume", "OK"],
    ["NodePublishVolume", "OK"],
    ["NodeUnpublishVolume", "OK"],
    ["NodeUnstageVolume", "OK"],
    ["ControllerUnpublishVolume", "OK"],
    ["DeleteVolume", "OK"],
  ]);
  channel.close();
});
