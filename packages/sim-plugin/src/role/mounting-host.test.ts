import { mkdir, mkdtemp, open, readFile, rm, rmdir, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  NodeExpandVolumeRequest,
  NodePublishVolumeRequest,
  NodeStageVolumeRequest,
  type VolumeCapability,
} from "@holdfast/shared/gen/csi/v1/csi";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { writer } from "../backend/test-driver.ts";
import type { HandsOnCall, Host } from "./host.ts";
import { mountsAt } from "./mount-table.ts";
import { createMountingHost, type StageStyle } from "./mounting-host.ts";
import { run } from "./run.ts";

const root = process.getuid?.() === 0;
const capacity = 16n * 1024n * 1024n;
const block: VolumeCapability = { ...writer, block: {}, mount: undefined };

let dir: string;
let staging: string;
let target: string;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-sim-"));
  staging = path.join(dir, "staging");
  target = path.join(dir, "target");
  await mkdir(staging);
});

afterEach(async () => {
  // Only when nothing is mounted any more may this tree be removed.
  expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(dir);
  await rm(dir, { recursive: true, force: true });
});

const hostWith = (stageStyle: StageStyle = "mount"): Host =>
  createMountingHost({ dataDir: path.join(dir, "data"), stageStyle });

const bytesOf = async (device: string): Promise<bigint> =>
  BigInt((await run("blockdev", ["--getsize64", device])).trim());

const calls = (
  volumeCapability: VolumeCapability,
  readonly = false,
): Record<"stage" | "publish" | "unpublish" | "unstage", HandsOnCall> => {
  const volumeId = "vol=/../1";
  const request = { volumeId, stagingTargetPath: staging, volumeCapability };
  return {
    stage: { method: "NodeStageVolume", request: NodeStageVolumeRequest.fromPartial(request) },
    publish: {
      method: "NodePublishVolume",
      request: NodePublishVolumeRequest.fromPartial({ ...request, targetPath: target, readonly }),
    },
    unpublish: { method: "NodeUnpublishVolume", request: { volumeId, targetPath: target } },
    unstage: { method: "NodeUnstageVolume", request: { volumeId, stagingTargetPath: staging } },
  };
};

const twice = async (host: Host, call: HandsOnCall): Promise<void> => {
  await host.work?.(call, capacity);
  await host.work?.(call, capacity);
};

describe.runIf(root)("a filesystem", () => {
  test.each([
    ["mount", 1, 0],
    ["subdir", 0, 1],
    ["none", 0, 0],
  ] as const)("is mounted in the style %s, each step done twice", async (style, onStaging, belowStaging) => {
    const host = hostWith(style);
    const { stage, publish, unpublish, unstage } = calls(writer);
    await twice(host, stage);
    expect([await mountsAt(staging), await mountsAt(path.join(staging, "volume"))]).toEqual([onStaging, belowStaging]);
    await twice(host, publish);
    expect(await mountsAt(target)).toBe(1);
    await writeFile(path.join(target, "file"), "kept");
    await twice(host, unpublish);
    await expect(stat(target)).rejects.toMatchObject({ code: "ENOENT" });
    await twice(host, unstage);
    await rmdir(staging);
    await mkdir(staging);
    await host.work?.(stage, capacity);
    await host.work?.(publish, capacity);
    expect(await readFile(path.join(target, "file"), "utf8")).toBe("kept");
    await host.work?.(unpublish, capacity);
    await host.work?.(unstage, capacity);
  });

  test("published read-only takes no writes", async () => {
    const host = hostWith();
    const { stage, publish, unpublish, unstage } = calls(writer, true);
    await host.work?.(stage, capacity);
    await host.work?.(publish, capacity);
    await expect(writeFile(path.join(target, "file"), "no")).rejects.toMatchObject({ code: "EROFS" });
    await host.work?.(unpublish, capacity);
    await host.work?.(unstage, capacity);
  });
});

test.runIf(root)("a plugin may remove the staging directory on unstage", async () => {
  const host = createMountingHost({ dataDir: path.join(dir, "data"), removesStaging: true });
  const { stage, unstage } = calls(writer);
  await twice(host, stage);
  await twice(host, unstage);
  await expect(stat(staging)).rejects.toMatchObject({ code: "ENOENT" });
});

describe.runIf(root)("a block volume", () => {
  test("grows while it is published", async () => {
    const host = hostWith();
    const { stage, publish, unpublish, unstage } = calls(block);
    await host.work?.(stage, capacity);
    await host.work?.(publish, capacity);
    const request = NodeExpandVolumeRequest.fromPartial({ volumeId: "vol=/../1", volumePath: target });
    await host.work?.({ method: "NodeExpandVolume", request }, capacity * 2n);
    expect(await bytesOf(target)).toBe(capacity * 2n);
    await host.work?.(unpublish, capacity);
    await host.work?.(unstage, capacity);
  });

  test("is a device at the target, of the volume's size, and keeps its bytes", async () => {
    const host = hostWith();
    const { stage, publish, unpublish, unstage } = calls(block);
    await twice(host, stage);
    await twice(host, publish);
    expect((await stat(target)).isBlockDevice()).toBe(true);
    expect(await bytesOf(target)).toBe(capacity);
    const device = await open(target, "r+");
    await device.write("kept", 0);
    await device.sync();
    await device.close();
    await twice(host, unpublish);
    await expect(stat(target)).rejects.toMatchObject({ code: "ENOENT" });
    await twice(host, unstage);
    expect(await run("losetup", ["--list", "--noheadings"])).not.toContain(dir);
    const [image] = (await run("find", [path.join(dir, "data"), "-name", "*.img"])).trim().split("\n");
    expect((await readFile(image ?? "")).subarray(0, 4).toString()).toBe("kept");
  });

  test("published read-only takes no writes", async () => {
    const host = hostWith();
    const { stage, publish, unpublish, unstage } = calls(block, true);
    await host.work?.(stage, capacity);
    await host.work?.(publish, capacity);
    await expect(
      open(target, "r+").then((device) => device.write("no", 0).finally(() => device.close())),
    ).rejects.toThrow();
    await host.work?.(unpublish, capacity);
    await host.work?.(unstage, capacity);
  });
});
