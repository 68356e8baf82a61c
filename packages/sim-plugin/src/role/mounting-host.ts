import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, open, rmdir } from "node:fs/promises";
import path from "node:path";
import type { NodePublishVolumeRequest, NodeStageVolumeRequest } from "@holdfast/shared/gen/csi/v1/csi";
import { type HandsOnCall, type Host, lookAtPaths, makeTarget, removeTarget } from "./host.ts";
import { commandMounter, type Mounter } from "./mounter.ts";
import { run } from "./run.ts";

/**
 * What NodeStage does to the staging path, for drivers differ: they mount on it, mount below it, or mount nothing until
 * NodePublish.
 */
export type StageStyle = "mount" | "subdir" | "none";

export interface MountingOptions {
  /** Where the volumes' data is; the same directory for all nodes that are to see the same data. */
  readonly dataDir: string;
  readonly stageStyle?: StageStyle;
  /** NodeUnstage removes the staging directory too, which the spec leaves to the orchestrator and some drivers do. */
  readonly removesStaging?: boolean;
  /** mount(8) unless told. */
  readonly mounter?: Mounter;
}

/** Volume ids are opaque and never part of a path. */
const fileNameOf = (volume: string): string => createHash("sha256").update(volume).digest("hex").slice(0, 32);

/** Binds real directories, and loop devices for block volumes; needs root, or for filesystems a user namespace. */
export const createMountingHost = ({
  dataDir,
  stageStyle = "mount",
  removesStaging = false,
  mounter = commandMounter,
}: MountingOptions): Host => {
  const directoryOf = (volume: string): string => path.join(dataDir, fileNameOf(volume));
  const imageOf = (volume: string): string => `${directoryOf(volume)}.img`;
  const stageOf = (staging: string): string => (stageStyle === "subdir" ? path.join(staging, "volume") : staging);

  const loopsOf = async (volume: string): Promise<string[]> => {
    if (!existsSync(imageOf(volume))) return [];
    const list = await run("losetup", ["--noheadings", "--output", "NAME", "--associated", imageOf(volume)]);
    return list.split("\n").filter((line) => line !== "");
  };

  const growImage = async (volume: string, capacity: bigint): Promise<void> => {
    const image = await open(imageOf(volume), "a");
    try {
      const { size } = await image.stat();
      if (BigInt(size) < capacity) await image.truncate(Number(capacity));
    } finally {
      await image.close();
    }
  };

  const loopFor = async (volume: string, capacity: bigint): Promise<string> => {
    await growImage(volume, capacity);
    const [device] = await loopsOf(volume);
    if (device !== undefined) return device;
    try {
      return (await run("losetup", ["--find", "--show", imageOf(volume)])).trim();
    } catch (error) {
      throw new Error(
        `block volumes need root and loop devices: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  };

  const stage = async (
    { volumeId, stagingTargetPath, volumeCapability }: NodeStageVolumeRequest,
    capacity: bigint,
  ): Promise<void> => {
    if (volumeCapability?.block !== undefined) {
      await loopFor(volumeId, capacity);
      return;
    }
    if (stageStyle === "none") return;
    await mkdir(directoryOf(volumeId), { recursive: true });
    await mkdir(stageOf(stagingTargetPath), { recursive: true });
    await mounter.bind(directoryOf(volumeId), stageOf(stagingTargetPath), false);
  };

  const unstage = async (volume: string, staging: string): Promise<void> => {
    await mounter.unmount(directoryOf(volume), stageOf(staging));
    if (stageStyle === "subdir") await rmdir(stageOf(staging)).catch(() => undefined);
    for (const device of await loopsOf(volume)) {
      // What was set read-only stays so, for whoever gets the number next.
      await run("blockdev", ["--setrw", device]);
      await run("losetup", ["--detach", device]);
    }
    if (removesStaging) await rmdir(staging).catch(() => undefined);
  };

  /** A device grows with its image; a filesystem here is a directory and has no size. */
  const expand = async (volume: string, capacity: bigint): Promise<void> => {
    for (const device of await loopsOf(volume)) {
      await growImage(volume, capacity);
      await run("losetup", ["--set-capacity", device]);
    }
  };

  const publish = async (request: NodePublishVolumeRequest, capacity: bigint): Promise<void> => {
    const { volumeId, stagingTargetPath, targetPath, readonly } = request;
    const block = request.volumeCapability?.block !== undefined;
    const staged = stagingTargetPath !== "" && stageStyle !== "none";
    if (!block) await mkdir(directoryOf(volumeId), { recursive: true });
    const source = block
      ? await loopFor(volumeId, capacity)
      : staged
        ? stageOf(stagingTargetPath)
        : directoryOf(volumeId);
    await makeTarget(targetPath, block);
    await mounter.bind(source, targetPath, readonly, request.volumeCapability?.mount?.mountFlags);
    // A read-only bind of a device does not stop writes; the device itself must refuse them.
    if (block) await run("blockdev", [readonly ? "--setro" : "--setrw", source]);
  };

  return {
    look: lookAtPaths,
    work: async (call: HandsOnCall, capacity) => {
      await mkdir(dataDir, { recursive: true });
      if (call.method === "NodeStageVolume") await stage(call.request, capacity);
      if (call.method === "NodePublishVolume") await publish(call.request, capacity);
      if (call.method === "NodeUnstageVolume") await unstage(call.request.volumeId, call.request.stagingTargetPath);
      if (call.method === "NodeExpandVolume") await expand(call.request.volumeId, capacity);
      if (call.method === "NodeUnpublishVolume") {
        await mounter.unmount(directoryOf(call.request.volumeId), call.request.targetPath);
        await removeTarget(call.request.targetPath);
      }
    },
  };
};
