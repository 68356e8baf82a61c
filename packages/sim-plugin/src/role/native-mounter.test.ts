import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { ControllerDefinition, NodeDefinition } from "@holdfast/shared/gen/csi/v1/csi";
import { createChannel, createClient } from "nice-grpc";
import { afterEach, beforeEach, expect, test } from "vitest";
import { writer } from "../backend/test-driver.ts";
import { startSimBackend, startSimPlugin } from "../processes.ts";
import { mountsAt } from "./mount-table.ts";

const root = process.getuid?.() === 0;

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-nm-"));
});
afterEach(async () => {
  expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(dir);
  await rm(dir, { recursive: true, force: true });
});

// The flag is one of the process, so this takes a plugin that is one.
test.runIf(root).each([
  ["written to", writer, false],
  ["read only", writer, true],
  ["a block device", { ...writer, mount: undefined, block: {} }, false],
])("a plugin that mounts by itself: %s, each step twice", async (_what, volumeCapability, readonly) => {
  // Without mount(8) on its path only mount(2) is left. Block volumes want losetup and blockdev.
  const programs = volumeCapability.mount === undefined ? process.env["PATH"] : dir;
  const backend = await startSimBackend({ dir });
  const plugin = await startSimPlugin({
    ...{ dir, backend: backend.socketPath, role: "monolith", node: "n1", realMounts: true },
    dataDir: path.join(dir, "data"),
    env: { ...process.env, PATH: programs, HOLDFAST_SIM_NATIVE_MOUNTS: "1", NODE_OPTIONS: "--experimental-ffi" },
  });
  const channel = createChannel(`unix://${plugin.socketPath}`);
  const storage = createClient(ControllerDefinition, channel);
  const host = createClient(NodeDefinition, channel);
  const [stagingTargetPath, targetPath] = [path.join(dir, "staging"), path.join(dir, "target")];
  await mkdir(stagingTargetPath);
  const created = await storage.createVolume({ name: "v", volumeCapabilities: [volumeCapability] });
  const volumeId = created.volume?.volumeId ?? "";
  const common = { volumeId, volumeCapability, volumeContext: created.volume?.volumeContext ?? {} };
  const { publishContext } = await storage.controllerPublishVolume({ ...common, nodeId: "n1", readonly });
  const twice = async (call: () => Promise<unknown>): Promise<void> => {
    await call();
    await call();
  };

  await twice(() => host.nodeStageVolume({ ...common, publishContext, stagingTargetPath }));
  await twice(() => host.nodePublishVolume({ ...common, publishContext, stagingTargetPath, targetPath, readonly }));
  expect(await mountsAt(targetPath)).toBe(1);
  if (volumeCapability.mount !== undefined) {
    const writing = writeFile(path.join(targetPath, "file"), "text");
    if (readonly) await expect(writing).rejects.toMatchObject({ code: "EROFS" });
    else await writing;
  }
  await twice(() => host.nodeUnpublishVolume({ volumeId, targetPath }));
  await twice(() => host.nodeUnstageVolume({ volumeId, stagingTargetPath }));
  expect([await mountsAt(targetPath), await mountsAt(stagingTargetPath)]).toEqual([0, 0]);

  channel.close();
  await plugin.stop();
  await backend.stop();
});
